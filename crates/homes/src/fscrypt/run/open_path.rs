//! A file or directory that a command works on. It is opened once: a user who owns the tree may exchange names while
//! the command runs, and root's command must not follow.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use rustix::fs::{FileType, Mode, OFlags};

use super::system_error::io;

/// Opens something for no more than finding what it is.
const PASS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A file or directory that stays the same, whatever becomes of its name.
pub(super) struct OpenPath<'a> {
    path: &'a Path,
    descriptor: OwnedFd,
}

impl<'a> OpenPath<'a> {
    /// Opens a file or directory. Root follows no link that another user can have made.
    pub(super) fn open(path: &'a Path) -> Result<OpenPath<'a>> {
        let opened = match rustix::process::geteuid().is_root() {
            true => open_safely(path),
            false => rustix::fs::open(path, PASS, Mode::empty()).map_err(Error::from),
        };
        let descriptor = opened.map_err(|error| match error.kind() {
            // A link that another user can change.
            ErrorKind::Other => Failure::new(
                FailureKind::Permission,
                format!("{}: {error}", path.display()),
            ),
            _ => io(path, &error),
        })?;
        Ok(OpenPath { path, descriptor })
    }

    /// The name that the command was given.
    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    /// The path by which the kernel knows it now, without links.
    pub(super) fn whole_path(&self) -> Result<PathBuf> {
        std::fs::read_link(self.in_proc()).map_err(|error| io(self.path, &error))
    }

    /// Opens it to be read. A device or a FIFO is refused.
    pub(super) fn reopen(&self) -> Result<File> {
        let failed = |error| io(self.path, &error);
        let stat = rustix::fs::fstat(&self.descriptor).map_err(|error| failed(error.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => {}
            _ => {
                let why = "it is neither a file nor a directory";
                return Err(failed(Error::new(ErrorKind::InvalidInput, why)));
            }
        }
        File::open(self.in_proc()).map_err(failed)
    }

    pub(super) fn metadata(&self) -> Result<Metadata> {
        let copy = self.descriptor.try_clone().map(File::from);
        let metadata = copy.and_then(|file| file.metadata());
        metadata.map_err(|error| io(self.path, &error))
    }

    fn in_proc(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }
}

impl AsFd for OpenPath<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn open_safely(path: &Path) -> std::io::Result<OwnedFd> {
    match fuse::MountDirectory::new(path, "").open() {
        Err(error) if error.kind() == ErrorKind::NotADirectory => {}
        opened => return opened,
    }
    // A file: the directory above by a safe way, and no link at its end.
    let path = std::path::absolute(path)?;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::NotADirectory.into());
    };
    let above = fuse::MountDirectory::new(above, "").open()?;
    let file = rustix::fs::openat(&above, name, PASS | OFlags::NOFOLLOW, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::Symlink => Err(Error::other("it is a symbolic link; name the file itself")),
        _ => Ok(file),
    }
}
