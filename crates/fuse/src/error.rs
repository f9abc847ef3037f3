//! The errors of mounting and unmounting.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use failure::FailureKind;

use crate::mount::holder::MountHolder;

/// A failure to mount or unmount a file system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The mountpoint does not exist.
    #[error("{0}: no such directory; create it first")]
    NoMountpoint(PathBuf),
    /// The mountpoint is not a directory.
    #[error("{0}: not a directory")]
    NotDirectory(PathBuf),
    /// The directory cannot be examined.
    #[error("{path}: cannot be used as a mountpoint: {cause}")]
    Mountpoint {
        /// The directory.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// The kernel has no FUSE, or the device is not there.
    #[error(
        "/dev/fuse does not exist: load the kernel module `fuse`, or pass the device to the container"
    )]
    NoDevice,
    /// The device cannot be opened.
    #[error("/dev/fuse cannot be opened: {0}")]
    OpenDevice(Errno),
    /// The device failed.
    #[error("/dev/fuse: {0}")]
    Device(Errno),
    /// The kernel refused to mount.
    #[error("{path}: mounting failed: {cause}")]
    Mount {
        /// The path of the mount.
        path: PathBuf,
        /// The cause.
        cause: Errno,
    },
    /// Ordinary users mount with a helper that is not there.
    #[error(
        "fusermount3 was not found, and only root can mount without it: install the package fuse3"
    )]
    NoHelper,
    /// The helper could not be run.
    #[error("fusermount3 cannot be run: {0}")]
    RunHelper(io::Error),
    /// The helper refused; this is what it said.
    #[error("fusermount3: {0}")]
    Helper(String),
    /// The kernel and this program do not understand each other.
    #[error("FUSE protocol: {0}")]
    Protocol(&'static str),
    /// Files of the mount are in use.
    #[error("{0}: in use; close its files and leave its directories first, or unmount it with -f")]
    Busy(PathBuf),
    /// Another file system is mounted in a directory of the mount.
    #[error(
        "{path}: in use: {} is mounted in it; unmount that first, or unmount both with -f", .inside.display()
    )]
    Inside {
        /// The mount.
        path: PathBuf,
        /// The directory of the inner mount.
        inside: PathBuf,
    },
    /// Files are open for writing, of what is to refuse changes.
    #[error("{0}: files in it are open for writing; close them first")]
    Writing(PathBuf),
    /// Another file system is mounted on top.
    #[error("{0}: something else is mounted on top; unmount that first")]
    Covered(PathBuf),
    /// Options cannot be changed, because something else is mounted on top.
    #[error(
        "{0}: its options stay as they are: something else is mounted on top; unmount that, then try again"
    )]
    OptionsCovered(PathBuf),
    /// The mount lives on in another mount namespace.
    #[error("{path}: unmounted here, but {}", user(.holder.as_ref()))]
    InUseElsewhere {
        /// The former path of the mount.
        path: PathBuf,
        /// The process that has it, if known.
        holder: Option<MountHolder>,
    },
    /// Threads of the file system do not end.
    #[error(
        "{0}: unmounted, but requests to it still wait for a disk; see 'strongroom pool status'"
    )]
    Hanging(PathBuf),
    /// The kernel refused to unmount.
    #[error("{path}: unmounting failed: {cause}")]
    Unmount {
        /// The path of the directory.
        path: PathBuf,
        /// The cause.
        cause: Errno,
    },
    /// No memory is left for requests.
    #[error("cannot map memory for requests: {0}; end other programs, or unmount something first")]
    Memory(io::Error),
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

fn user(holder: Option<&MountHolder>) -> String {
    match holder {
        Some(holder) => {
            format!("{holder}; end that, or unmount it there, or unmount it with -f")
        }
        None => "still in use elsewhere (files left open by a lazy unmount); end that, or unmount it with -f"
            .to_owned(),
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Busy(_)
            | Error::Writing(_)
            | Error::Covered(_)
            | Error::OptionsCovered(_)
            | Error::Inside { .. }
            | Error::InUseElsewhere { .. } => FailureKind::Busy,
            Error::NoMountpoint(_) => FailureKind::NotFound,
            Error::Helper(_)
            | Error::Mount {
                cause: Errno::PERM | Errno::ACCESS | Errno::ROFS,
                ..
            }
            | Error::OpenDevice(Errno::PERM | Errno::ACCESS) => FailureKind::Permission,
            _ => FailureKind::Other,
        }
    }
}
