//! Where the keys of policies are.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use daemon::Failure;
use keys::kernel::{self, KeyStatus, Removed};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use secret::Secret;
use stack::formats::fscrypt::{KeyName, Policy};

use super::place::{self, specifier};
use crate::cmd::stack::run::{Answer, MasterState, Mounted, Request};
use crate::outcome::LocalResult as Result;

/// The keys of a file system.
pub(super) enum Keyring {
    /// The kernel has them, for the file system that is mounted here.
    Kernel(PathBuf),
    /// The process that serves the mount of a stacked directory has them.
    Mount(Mounted),
}

impl Keyring {
    /// The one for the metadata in this place.
    pub(super) fn of_place(place: &Path) -> Keyring {
        let whole = place.canonicalize().unwrap_or_else(|_| place.to_owned());
        let mounted = || Mounted::find(place).ok().flatten();
        match Mounted::of_lower(&whole).or_else(mounted) {
            Some(mounted) => Keyring::Mount(mounted),
            None => Keyring::Kernel(place.to_owned()),
        }
    }

    /// Whether there is a key.
    pub(super) fn status(&self, name: &KeyName) -> Result<KeyStatus> {
        let mounted = match self {
            Keyring::Kernel(place) => {
                let status = kernel::key_status(open(place)?, &specifier(name));
                return status.map_err(|error| kernel_failure(place, error));
            }
            Keyring::Mount(mounted) => mounted,
        };
        let name = bytes(name);
        Ok(
            match state(mounted.ask(&Request::MasterState { name }, None)?)? {
                MasterState::Absent => KeyStatus::Absent,
                MasterState::Present => KeyStatus::Present { is_own: true },
                MasterState::Leaving => KeyStatus::FilesBusy,
            },
        )
    }

    pub(super) fn add(&self, name: &KeyName, master: &Secret) -> Result<()> {
        match self {
            Keyring::Kernel(place) => {
                let added = kernel::add_key(open(place)?, &specifier(name), master);
                added.map_err(|error| kernel_failure(place, error))
            }
            Keyring::Mount(mounted) => {
                let name = bytes(name);
                let added = mounted.ask(&Request::AddMaster { name }, Some(master));
                added.map(drop)
            }
        }
    }

    /// Gives an empty directory a policy.
    pub(super) fn set_policy(&self, directory: &File, path: &Path, policy: &Policy) -> Result<()> {
        let policy = policy.to_kernel();
        match self {
            Keyring::Kernel(_) => {
                let set = kernel::set_policy(directory, &policy);
                set.map_err(|error| kernel_failure(path, error))
            }
            Keyring::Mount(mounted) => {
                let found = directory.metadata();
                let ino = found.map_err(|error| place::io(path, &error))?.ino();
                let request = Request::SetPolicy { ino, policy };
                mounted.ask(&request, None).map(drop)
            }
        }
    }

    /// Takes a key away, if it is there.
    pub(super) fn remove(&self, name: &KeyName, all_users: bool) -> Result<Option<Removed>> {
        let mounted = match self {
            Keyring::Kernel(place) => {
                return match kernel::remove_key(open(place)?, &specifier(name), all_users) {
                    Ok(removed) => Ok(Some(removed)),
                    Err(Errno::NOKEY) => Ok(None),
                    Err(error) => Err(kernel_failure(place, error)),
                };
            }
            Keyring::Mount(mounted) => mounted,
        };
        if self.status(name)? == KeyStatus::Absent {
            return Ok(None);
        }
        let name = bytes(name);
        Ok(Some(
            match state(mounted.ask(&Request::RemoveMaster { name }, None)?)? {
                MasterState::Leaving => Removed::FilesBusy,
                _ => Removed::Whole,
            },
        ))
    }
}

/// The policy of a file or directory, and where its metadata and its key are.
pub(super) fn policy(path: &Path) -> Result<(Keyring, PathBuf, Policy)> {
    let (keyring, place, policy) = find(path)?;
    let clear = || kernel_failure(path, Errno::NODATA);
    Ok((keyring, place, policy.ok_or_else(clear)?))
}

/// As [`policy`], also of what is not encrypted.
pub(super) fn find(path: &Path) -> Result<(Keyring, PathBuf, Option<Policy>)> {
    let unknown = || Failure::other(format!("{}: its policy is not known", path.display()));
    let (keyring, place, bytes) = match Mounted::find(path)? {
        Some(mounted) => {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            // The mount knows it while it is open.
            let held = rustix::fs::open(path, flags, Mode::empty());
            let held: File = held.map_err(|error| kernel_failure(path, error))?.into();
            let ino = held
                .metadata()
                .map_err(|error| place::io(path, &error))?
                .ino();
            let Answer::Policy(bytes) = mounted.ask(&Request::PolicyOf { ino }, None)? else {
                return Err(unknown());
            };
            let place = mounted.lower().to_owned();
            (Keyring::Mount(mounted), place, bytes)
        }
        None => {
            let bytes = match kernel::policy(open(path)?) {
                Ok(bytes) => Some(bytes),
                Err(Errno::NODATA) => None,
                Err(error) => return Err(kernel_failure(path, error)),
            };
            let place = place::of_path(path)?;
            (Keyring::Kernel(place.clone()), place, bytes)
        }
    };
    let policy = bytes.map(|bytes| Policy::from_kernel(&bytes).ok_or_else(unknown));
    Ok((keyring, place, policy.transpose()?))
}

pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| place::io(path, &error))
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

fn state(answer: Answer) -> Result<MasterState> {
    match answer {
        Answer::Master(state) => Ok(state),
        _ => Err(Failure::other(
            "the process of the mount is of another version",
        )),
    }
}
