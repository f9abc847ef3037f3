//! Locks on files.
//!
//! The owner of a device has two locks on it. The first is a lock of `flock`, which other programs use too:
//! cryptsetup waits for it to read a header. An owner can release it between its own changes
//! ([`crate::FileDevice::let_others_lock`]). The second is a lock of the open file on one byte far behind the end,
//! which no other program looks at. It stays, and keeps out other owners.

// The standard library and rustix have no locks of open files.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::{Error, Result, holder};

/// The byte that an owner locks. No file is as long.
const BYTE: i64 = 0x7fff_ffff_5352_4f4d;

/// Takes both locks; false if the file system has none of owners.
///
/// # Errors
/// [`Error::Busy`] if another open file has one; [`Error::Open`].
pub(crate) fn own(file: &File, path: &Path) -> Result<bool> {
    take_flock(file, path)?;
    take_ownership(file).map_err(|_| {
        // Or this process would be the one that is found to have it.
        unlock(file);
        busy(file, path)
    })
}

/// Takes the lock that other programs take too.
pub(crate) fn take_flock(file: &File, path: &Path) -> Result<()> {
    flock(file, path, FlockOperation::NonBlockingLockExclusive)
}

/// Takes the lock that other programs take to read.
pub(crate) fn share_flock(file: &File, path: &Path) -> Result<()> {
    flock(file, path, FlockOperation::NonBlockingLockShared)
}

fn flock(file: &File, path: &Path, how: FlockOperation) -> Result<()> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(busy(file, path)),
        Err(errno) => Err(Error::Open {
            path: path.display().to_string(),
            source: errno.into(),
        }),
    }
}

pub(crate) fn unlock(file: &File) {
    // Nothing can be done if this fails, and then others wait.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// Gives both locks back. To close the file is not enough: a process that another thread is just starting has
/// a copy of the descriptor until it runs its own program, and the locks with it.
pub(crate) fn disown(file: &File) {
    unlock(file);
    let _ = set_ownership(file, libc::F_UNLCK);
}

/// Why it cannot be locked: another process has it.
fn busy(file: &File, path: &Path) -> Error {
    let holder = file.metadata().map(|metadata| holder::of_file(&metadata));
    Error::Busy {
        path: path.display().to_string(),
        holder: holder.unwrap_or_else(|_| holder::UNKNOWN.into()),
    }
}

/// Takes the lock of owners; false if the file system has none.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if another open file has it.
fn take_ownership(file: &File) -> io::Result<bool> {
    let Err(error) = set_ownership(file, libc::F_WRLCK) else {
        return Ok(true);
    };
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(false),
    }
}

/// Takes the lock of owners, or gives it back.
fn set_ownership(file: &File, kind: libc::c_int) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: BYTE,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the kernel reads one `flock`, which lives as long as the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Access, FileDevice};

    #[test]
    fn a_copy_of_the_descriptor_keeps_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let device = FileDevice::create(&path, 4096).unwrap();
        // As a process has it that was started meanwhile.
        let copy = device.file.try_clone().unwrap();
        drop(device);
        FileDevice::open(&path, Access::Exclusive).unwrap();
        drop(copy);
    }
}
