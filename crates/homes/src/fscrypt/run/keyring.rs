//! The keyrings that hold keys of policies.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use keys::kernel::{self, KernelKeyStatus, KeyRemoval};
use protocol::api::Failure;
use rustix::io::Errno;
use secret::Secret;
use stack::formats::fscrypt::{EncryptionPolicy, KeyName};

use super::open_path::OpenPath;
use super::place::{self, specifier};
use crate::stack::run::{ControlAnswer, MasterState, Request, StackedMount};

/// The keys of a file system.
pub(super) enum PolicyKeyring {
    /// The kernel has them, for the file system of this directory.
    Kernel(PathBuf, File),
    /// The process that serves the mount of a stacked directory has them.
    Mount(StackedMount),
}

impl PolicyKeyring {
    /// The one for the metadata in this place.
    pub(super) fn of_place(place: &Path) -> Result<PolicyKeyring> {
        let held = OpenPath::open(place)?;
        match StackedMount::of_lower(&held.whole_path()?) {
            Some(mounted) => Ok(PolicyKeyring::Mount(mounted)),
            None => PolicyKeyring::of(&held),
        }
    }

    /// The one for what is in this directory, or is mounted on it.
    fn of(held: &OpenPath<'_>) -> Result<PolicyKeyring> {
        Ok(match StackedMount::on(held, held.path())? {
            Some(mounted) => PolicyKeyring::Mount(mounted),
            None => PolicyKeyring::Kernel(held.path().to_owned(), held.reopen()?),
        })
    }

    pub(super) fn status(&self, name: &KeyName) -> Result<KernelKeyStatus> {
        let mounted = match self {
            PolicyKeyring::Kernel(place, directory) => {
                let status = kernel::key_status(directory, &specifier(name));
                return status.map_err(|error| kernel_failure(place, error));
            }
            PolicyKeyring::Mount(mounted) => mounted,
        };
        let name = bytes(name);
        Ok(
            match state(mounted.ask(&Request::MasterState { name }, None)?)? {
                MasterState::Absent => KernelKeyStatus::Absent,
                MasterState::Present => KernelKeyStatus::Present { is_own: true },
                MasterState::Leaving => KernelKeyStatus::FilesBusy,
            },
        )
    }

    pub(super) fn add(&self, name: &KeyName, master: &Secret) -> Result<()> {
        match self {
            PolicyKeyring::Kernel(place, directory) => {
                let added = kernel::add_key(directory, &specifier(name), master);
                added.map_err(|error| kernel_failure(place, error))
            }
            PolicyKeyring::Mount(mounted) => {
                let name = bytes(name);
                let added = mounted.ask(&Request::AddMaster { name }, Some(master));
                added.map(drop)
            }
        }
    }

    /// Gives an empty directory a policy.
    pub(super) fn set_policy(
        &self,
        directory: &File,
        path: &Path,
        policy: &EncryptionPolicy,
    ) -> Result<()> {
        let policy = policy.to_kernel();
        match self {
            PolicyKeyring::Kernel(..) => {
                let set = kernel::set_policy(directory, &policy);
                set.map_err(|error| kernel_failure(path, error))
            }
            PolicyKeyring::Mount(mounted) => {
                let found = directory.metadata();
                let ino = found.map_err(|error| place::io(path, &error))?.ino();
                let request = Request::SetPolicy { ino, policy };
                mounted.ask(&request, None).map(drop)
            }
        }
    }

    /// Takes a key away, if it is there.
    pub(super) fn remove(&self, name: &KeyName, all_users: bool) -> Result<Option<KeyRemoval>> {
        let mounted = match self {
            PolicyKeyring::Kernel(place, directory) => {
                return match kernel::remove_key(directory, &specifier(name), all_users) {
                    Ok(removed) => Ok(Some(removed)),
                    Err(Errno::NOKEY) => Ok(None),
                    Err(error) => Err(kernel_failure(place, error)),
                };
            }
            PolicyKeyring::Mount(mounted) => mounted,
        };
        if self.status(name)? == KernelKeyStatus::Absent {
            return Ok(None);
        }
        let name = bytes(name);
        Ok(Some(
            match state(mounted.ask(&Request::RemoveMaster { name }, None)?)? {
                MasterState::Leaving => KeyRemoval::FilesBusy,
                _ => KeyRemoval::Whole,
            },
        ))
    }
}

/// The policy of a file or directory, and where its metadata and its key are.
pub(super) fn policy(held: &OpenPath<'_>) -> Result<(PolicyKeyring, PathBuf, EncryptionPolicy)> {
    let (keyring, place, policy) = find(held)?;
    let clear = || kernel_failure(held.path(), Errno::NODATA);
    Ok((keyring, place, policy.ok_or_else(clear)?))
}

/// The policy of a file or directory; none if it is not encrypted.
pub(super) fn find(
    held: &OpenPath<'_>,
) -> Result<(PolicyKeyring, PathBuf, Option<EncryptionPolicy>)> {
    let path = held.path();
    let unknown = || Failure::other(format!("{}: its policy is not known", path.display()));
    let (keyring, place, bytes) = match StackedMount::on(held, path)? {
        Some(mounted) => {
            // The mount knows it while it is open.
            let ino = held.metadata()?.ino();
            let ControlAnswer::Policy(bytes) = mounted.ask(&Request::PolicyOf { ino }, None)?
            else {
                return Err(unknown());
            };
            let place = mounted.lower().to_owned();
            (PolicyKeyring::Mount(mounted), place, bytes)
        }
        None => {
            let bytes = match kernel::policy(held.reopen()?) {
                Ok(bytes) => Some(bytes),
                Err(Errno::NODATA) => None,
                Err(error) => return Err(kernel_failure(path, error)),
            };
            let (place, directory) = place::of_file(held)?;
            (
                PolicyKeyring::Kernel(place.clone(), directory),
                place,
                bytes,
            )
        }
    };
    let policy = bytes.map(|bytes| EncryptionPolicy::from_kernel(&bytes).ok_or_else(unknown));
    Ok((keyring, place, policy.transpose()?))
}

pub(super) fn kernel_failure(path: &Path, error: Errno) -> Failure {
    place::io(path, &std::io::Error::from(error))
}

fn bytes(name: &KeyName) -> Vec<u8> {
    match name {
        KeyName::Descriptor(name) => name.to_vec(),
        KeyName::Identifier(name) => name.to_vec(),
    }
}

fn state(answer: ControlAnswer) -> Result<MasterState> {
    match answer {
        ControlAnswer::Master(state) => Ok(state),
        _ => Err(Failure::other(
            "the process of the mount is of another version",
        )),
    }
}
