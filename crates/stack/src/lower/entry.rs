//! One entry of the lower directory.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use vfs::Result;

use super::posix;

/// The longest value of an extended attribute on Linux.
const XATTR_MAX: usize = 64 << 10;

/// A file, directory, link or special file of the lower directory, opened for no more than naming it
/// (`O_PATH`). It stays the same one, whatever happens to its name.
#[derive(Debug)]
pub struct Entry(OwnedFd);

impl Entry {
    /// The directory at `path`, which is resolved as any path is: the caller chose it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn root(path: &std::path::Path) -> Result<Entry> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
            .map(Entry)
            .map_err(posix)
    }

    /// The entry `name` of this directory. A link is not followed, and another file system that is
    /// mounted there is not entered.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; `CrossDevice` for a mountpoint.
    pub fn entry(&self, name: &[u8]) -> Result<Entry> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.0, name, flags, Mode::empty()).map(Entry)
    }

    /// Opens the entry `name` of this directory.
    ///
    /// # Errors
    /// As [`Entry::entry`], and those of `open`.
    pub fn open(&self, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        openat(
            &self.0,
            name,
            flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            mode,
        )
    }

    /// Opens this directory or regular file itself.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn reopen(&self, flags: OFlags) -> Result<OwnedFd> {
        let path = self.proc_path();
        rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(posix)
    }

    /// What `fstat` says.
    ///
    /// # Errors
    /// `Stale`, `Io`.
    pub fn stat(&self) -> Result<Stat> {
        rustix::fs::fstat(&self.0).map_err(posix)
    }

    /// The value of an extended attribute, if there is one.
    ///
    /// # Errors
    /// `Access`, `NotSupported` if the lower file system has none, `Io`.
    pub fn xattr(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::with_capacity(256);
        loop {
            let spare = rustix::buffer::spare_capacity(&mut value);
            match rustix::fs::getxattr(self.proc_path(), name, spare) {
                Ok(_) => return Ok(Some(value)),
                Err(Errno::NODATA) => return Ok(None),
                Err(Errno::RANGE) if value.capacity() < XATTR_MAX => {
                    value = Vec::with_capacity(XATTR_MAX);
                }
                Err(error) => return Err(posix(error)),
            }
        }
    }

    /// Where this symbolic link points to.
    ///
    /// # Errors
    /// `Invalid` if it is none, `Io`.
    pub fn target(&self) -> Result<Vec<u8>> {
        rustix::fs::readlinkat(&self.0, c"", Vec::new())
            .map(std::ffi::CString::into_bytes)
            .map_err(posix)
    }

    /// The contents of the regular file `name` in this directory, if it has no more than `limit`
    /// bytes.
    ///
    /// # Errors
    /// Those of `open` and `read`; `Io` for a longer one, or something other than a file.
    pub fn read_small(&self, name: &[u8], limit: usize) -> Result<Vec<u8>> {
        // A FIFO must not hold the reader up.
        let file = self.open(name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
        let kind =
            rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file).map_err(posix)?.st_mode);
        if !kind.is_file() {
            return Err(vfs::Error::Io);
        }
        let mut bytes = Vec::new();
        let read = File::from(file)
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes);
        match read {
            Ok(len) if len <= limit => Ok(bytes),
            _ => Err(vfs::Error::Io),
        }
    }

    /// A path to this entry that nothing can redirect, for the system calls that take no descriptor
    /// of this kind.
    pub(crate) fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

impl AsFd for Entry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens `name` in `dir`, beneath it and on the same file system.
fn openat(dir: &OwnedFd, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(dir, name, flags, mode, resolve).map_err(posix)
}
