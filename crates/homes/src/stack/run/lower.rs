//! The lower directory and its key.

use std::os::fd::AsRawFd;
use std::path::Path;

use console::key_file::{ask, key_file};
use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use secret::Secret;
use stack::Entry;
use stack::formats::fscrypt::{EncryptionPolicy, XattrNamespace};
use vfs::Error;

use crate::stack::args::StackKey;

/// The shortest key, in bytes: for policies of AES-128.
const KEY_MIN: usize = 16;
/// The longest key, in bytes.
const KEY_MAX: usize = 64;

/// Opens the lower directory. Root follows no link that another user can have made.
pub(crate) fn open(dir: &Path) -> Result<Entry> {
    if !rustix::process::geteuid().is_root() {
        return Entry::root(dir).map_err(|error| failure(dir, error));
    }
    let held = fuse::MountDirectory::new(dir, "").open().map_err(|error| {
        match error.raw_os_error().and_then(Error::from_errno) {
            Some(known) => failure(dir, known),
            // It says which link another user can change.
            None => Failure::new(
                FailureKind::Permission,
                format!("{}: {error}", dir.display()),
            ),
        }
    })?;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    Entry::root(Path::new(&path)).map_err(|error| failure(dir, error))
}

/// The policy of a lower directory, and where it is kept.
pub(super) fn policy(dir: &Path, lower: &Entry) -> Result<(XattrNamespace, EncryptionPolicy)> {
    match XattrNamespace::of(lower) {
        Ok(Some((_, context))) if context.policy.needs_inode_numbers() => {
            Err(Failure::other(format!(
                "{}: the policy makes the IVs from inode numbers (IV_INO_LBLK), which a stacked directory cannot \
                 choose; only the file system that encrypted it can read it",
                dir.display()
            )))
        }
        Ok(Some((space, context))) => Ok((space, context.policy)),
        Ok(None) => Err(Failure::other(format!(
            "{} is not prepared for encrypted files; `strongroom stack init` prepares an empty directory",
            dir.display()
        ))),
        Err(Error::Io) => Err(Failure::new(
            FailureKind::Damaged,
            format!("the policy of {} is damaged", dir.display()),
        )),
        Err(error) => Err(failure(dir, error)),
    }
}

/// The key file, where there can be one only.
pub(super) fn one_key_file(key: &StackKey) -> Result<Option<&Path>> {
    match &key.key_file[..] {
        [] => Ok(None),
        [file] => Ok(Some(file)),
        _ => Err(Failure::usage("this takes one key file")),
    }
}

/// A file with a key of a length that master keys have.
pub(super) fn master_key(path: &Path) -> Result<Secret> {
    let key = key_file(path)?;
    let len = key.len();
    match (KEY_MIN..=KEY_MAX).contains(&len) {
        true => Ok(key),
        false => Err(Failure::new(
            FailureKind::NoKey,
            format!(
                "the key file {} has {len} bytes; a key has {KEY_MIN} to {KEY_MAX}",
                path.display()
            ),
        )),
    }
}

/// The passphrase of a directory, or a new one.
pub(super) fn passphrase(dir: &Path, key: &StackKey, new: bool) -> Result<Secret> {
    passphrase_in(dir, key.passfile.as_deref(), new)
}

/// The first line of this file, or what is typed.
pub(super) fn passphrase_in(dir: &Path, passfile: Option<&Path>, new: bool) -> Result<Secret> {
    let mut passphrase = match passfile {
        Some(path) => key_file(path)?,
        None => ask(dir, new)?,
    };
    let end = passphrase.expose().iter().position(|byte| *byte == b'\n');
    passphrase.truncate(end.unwrap_or(passphrase.len()));
    match passphrase.is_empty() {
        true => Err(Failure::new(FailureKind::NoKey, "the passphrase is empty")),
        false => Ok(passphrase),
    }
}

/// The failure for an error of the lower directory.
pub(super) fn failure(dir: &Path, error: Error) -> Failure {
    let dir = dir.display();
    let (kind, why) = match error {
        Error::NotFound => (FailureKind::NotFound, "there is no such directory"),
        Error::NotDirectory => (FailureKind::Usage, "it is not a directory"),
        Error::Exists => (FailureKind::Exists, "it is encrypted already"),
        Error::NotEmpty => (FailureKind::Other, "it is not empty"),
        Error::Access | Error::NotPermitted => {
            (FailureKind::Permission, "it cannot be read or changed")
        }
        Error::ReadOnly => (FailureKind::Permission, "its file system is read-only"),
        Error::NotSupported => (
            FailureKind::Other,
            "its file system does not support extended attributes, or the policy makes the IVs from inode \
             numbers",
        ),
        Error::NoSpace | Error::Quota => (FailureKind::NoSpace, "there is not enough free space"),
        _ => return Failure::new(FailureKind::Device, format!("{dir}: {error}")),
    };
    Failure::new(kind, format!("{dir}: {why}"))
}
