//! Locks on files.
//!
//! The owner of a device has two locks on it. The first is a lock of `flock`, which other programs use too:
//! cryptsetup waits for it to read a header. An owner can release it between its own changes
//! ([`crate::FileDevice::let_others_lock`]). The second is a lock of the open file on one byte far behind the end,
//! which no other program looks at. It stays, and keeps out other owners. [`crate::ownership::backing_locks`] takes it on the files below
//! a loop device too.

// The standard library and rustix have no locks of open files.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::ownership::holder;
use crate::{Error, Result};

/// The byte that an owner locks. No file is as long.
const BYTE: i64 = 0x7fff_ffff_5352_4f4d;
/// The first of the bytes that stand for the sectors of a file. The owner of a part of it locks some of them.
const SECTORS: i64 = 0x7f00_0000_0000_0000;
/// The number of sectors in the largest file.
const SECTORS_MAX: u64 = 1 << 54;
const SECTOR: u64 = 512;

/// A range of bytes of a file or device; without an end it reaches as far as that does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockExtent {
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
}

impl LockExtent {
    /// The same bytes, in what `outer` is a part of.
    pub(crate) fn within(self, outer: LockExtent) -> LockExtent {
        let end = self.end.map(|end| end.saturating_add(outer.start));
        LockExtent {
            start: self.start.saturating_add(outer.start),
            end: end.into_iter().chain(outer.end).min(),
        }
    }

    /// The bytes that stand for its sectors; none for all of a file.
    fn sectors(self) -> Option<ByteRange> {
        if self == LockExtent::default() {
            return None;
        }
        let start = (self.start / SECTOR).min(SECTORS_MAX - 1);
        let end = self.end.map_or(SECTORS_MAX, |end| end.div_ceil(SECTOR));
        let end = end.clamp(start + 1, SECTORS_MAX);
        Some(ByteRange {
            start: SECTORS + start as i64,
            len: (end - start) as i64,
        })
    }
}

#[derive(Clone, Copy)]
struct ByteRange {
    start: i64,
    len: i64,
}

const OWNER: ByteRange = ByteRange {
    start: BYTE,
    len: 1,
};
/// Up to the end, in the words of the system.
const ALL: ByteRange = ByteRange { start: 0, len: 0 };

/// Takes both locks; false if the file system has none of owners.
///
/// # Errors
/// [`Error::Busy`] if another open file has one; [`Error::Open`].
pub(crate) fn own(file: &File, path: &Path) -> Result<bool> {
    take_flock(file, path)?;
    take_lock(file, libc::F_WRLCK, OWNER).map_err(|_| {
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
    release(file);
}

/// Takes the lock of owners on a part of a file below a device that was opened at `path`. The parts of two owners may
/// not overlap. Nothing is locked if the file system has no such locks.
///
/// # Errors
/// [`Error::Busy`] if another open file has one on the same part.
pub(crate) fn own_extent(file: &File, extent: LockExtent, path: &Path) -> Result<()> {
    let wanted = match extent.sectors() {
        None => vec![(libc::F_WRLCK, OWNER)],
        Some(sectors) => vec![(libc::F_RDLCK, OWNER), (libc::F_WRLCK, sectors)],
    };
    for (kind, range) in wanted {
        if take_lock(file, kind, range).is_err() {
            let start = other_lock(file, kind, range);
            // Or this process would be the one that is found to have it.
            release(file);
            let holder = file.metadata().ok().zip(start);
            return Err(Error::Busy {
                path: path.display().to_string(),
                holder: holder.map_or(holder::UNKNOWN.into(), |(metadata, start)| {
                    holder::of_lock(&metadata, start)
                }),
            });
        }
    }
    Ok(())
}

/// Gives the locks of owners back, as [`disown`] does.
pub(crate) fn release(file: &File) {
    let _ = set_lock(file, libc::F_UNLCK, ALL);
}

/// The error for a file that another process has locked.
fn busy(file: &File, path: &Path) -> Error {
    let holder = file.metadata().map(|metadata| holder::of_file(&metadata));
    Error::Busy {
        path: path.display().to_string(),
        holder: holder.unwrap_or_else(|_| holder::UNKNOWN.into()),
    }
}

/// Takes a lock of owners; false if the file system has none.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if another open file has it.
fn take_lock(file: &File, kind: libc::c_int, range: ByteRange) -> io::Result<bool> {
    let Err(error) = set_lock(file, kind, range) else {
        return Ok(true);
    };
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(false),
    }
}

/// Takes a lock of owners, or gives it back.
fn set_lock(file: &File, kind: libc::c_int, range: ByteRange) -> io::Result<()> {
    let lock = request(kind, range);
    // SAFETY: the descriptor is open, and the kernel reads one `flock`, which lives as long as the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The first byte of the lock that is in the way of this one.
fn other_lock(file: &File, kind: libc::c_int, range: ByteRange) -> Option<i64> {
    let mut lock = request(kind, range);
    // SAFETY: the descriptor is open, and the kernel changes one `flock`, which lives as long as the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    (done == 0 && libc::c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_start)
}

fn request(kind: libc::c_int, range: ByteRange) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: range.start,
        l_len: range.len,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::{DeviceAccess, FileDevice};

    #[test]
    fn a_copy_of_the_descriptor_keeps_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let device = FileDevice::create(&path, 4096).unwrap();
        // As a process has it that was started meanwhile.
        let copy = device.file.try_clone().unwrap();
        drop(device);
        FileDevice::open(&path, DeviceAccess::Exclusive).unwrap();
        drop(copy);
    }
}
