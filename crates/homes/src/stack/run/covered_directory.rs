//! The directory below a mount: one that is mounted over itself is reached by a copy of the mount that it is in.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::FdFlags;
use rustix::mount::{OpenTreeFlags, open_tree};

/// A directory that a mount covers.
#[derive(Debug)]
pub(crate) struct CoveredDirectory {
    dir: OwnedFd,
}

impl CoveredDirectory {
    /// The directory below the mount on `path`.
    pub(crate) fn below(path: &Path) -> std::io::Result<CoveredDirectory> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        // The copy has no mounts in it.
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let above = open_tree(CWD, above, flags)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let dir = rustix::fs::openat(&above, name, flags, Mode::empty())?;
        // Processes of this one get it.
        rustix::io::fcntl_setfd(dir.as_fd(), FdFlags::empty())?;
        Ok(CoveredDirectory { dir })
    }

    /// The path of the directory, for this process and those that it starts.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.dir.as_raw_fd()).into()
    }
}
