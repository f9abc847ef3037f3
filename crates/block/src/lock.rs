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
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
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
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: BYTE,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the kernel reads one `flock`, which lives as long as the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if done == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(false),
    }
}
