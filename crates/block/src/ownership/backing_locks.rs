//! Locks of owners on the files below loop devices.
//!
//! A lock on a loop device keeps out neither the owner of its file nor that of a second loop device. So the owner of a
//! loop device, or of a partition of one, locks the file too, and what lies below that. A file that this process cannot
//! reach, or may not write to, is not locked: it may be deleted, or in another mount namespace.

// rustix has no requests of loop devices.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, major, minor, openat2};
use rustix::io::Errno;

use crate::Result;
use crate::ownership::lock::{self, LockExtent};

/// At most as many files are locked below a device.
const LAYERS_MAX: usize = 8;
/// The number of look-ups of a path that is renamed meanwhile.
const TRIES: usize = 16;
/// The unit of the sizes in sysfs.
const SECTOR: u64 = 512;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;

/// The locked files below a device, the highest first. The locks are given back when this is dropped.
#[derive(Default)]
pub(crate) struct BackingLocks(Vec<File>);

impl Drop for BackingLocks {
    fn drop(&mut self) {
        self.0.iter().for_each(lock::release);
    }
}

impl BackingLocks {
    /// Locks the files below a device that was opened at `path`.
    ///
    /// # Errors
    /// [`crate::Error::Busy`] if another owner has the same part of one.
    pub(crate) fn take(device: &File, path: &Path) -> Result<BackingLocks> {
        let mut locks = BackingLocks::default();
        let mut extent = LockExtent::default();
        while locks.0.len() < LAYERS_MAX {
            let upper = locks.0.last().unwrap_or(device);
            let Some((file, part)) = file_below(upper, extent) else {
                break;
            };
            lock::own_extent(&file, part, path)?;
            locks.0.push(file);
            extent = part;
        }
        Ok(locks)
    }
}

/// The file of a loop device, and which part of it an extent of the device is.
fn file_below(device: &File, extent: LockExtent) -> Option<(File, LockExtent)> {
    let metadata = device.metadata().ok()?;
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let (major, minor) = (major(metadata.rdev()), minor(metadata.rdev()));
    let mut disk = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let mut extent = extent;
    if disk.join("partition").exists() {
        extent = extent.within(partition(&disk)?);
        disk.push("..");
    }
    let path = std::fs::read(disk.join("loop/backing_file")).ok()?;
    let status = LoopStatus::of(device)?;
    let file = status.open(path.strip_suffix(b"\n")?)?;
    Some((file, extent.within(status.extent)))
}

/// Returns the range of a partition on its disk.
fn partition(dir: &Path) -> Option<LockExtent> {
    let number = |name| {
        let text = std::fs::read_to_string(dir.join(name)).ok()?;
        let sectors: u64 = text.trim_end().parse().ok()?;
        sectors.checked_mul(SECTOR)
    };
    let start = number("start")?;
    let end = start.checked_add(number("size")?);
    Some(LockExtent { start, end })
}

/// The status of a loop device.
struct LoopStatus {
    /// The file system of the file, its inode there, and its own number if it is a device.
    device: u64,
    inode: u64,
    number: u64,
    /// The part of the file.
    extent: LockExtent,
}

impl LoopStatus {
    /// The status of a loop device, also by one of its partitions.
    fn of(device: &File) -> Option<LoopStatus> {
        // `struct loop_info64` of linux/loop.h.
        let mut info = [0u64; 29];
        const _: () = assert!(size_of::<[u64; 29]>() == 232);
        // SAFETY: the descriptor is open, and the kernel writes one `loop_info64`, for which there is space.
        let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
        let [device, inode, number, start, limit, ..] = info;
        (done == 0).then(|| LoopStatus {
            device,
            inode,
            number,
            extent: LockExtent {
                start,
                end: (limit != 0).then(|| start.saturating_add(limit)),
            },
        })
    }

    /// Opens the file, if it is at this path still. A lookup that would wait, for example for a file system of a user
    /// above it, finds nothing: the kernel has all names of the path in memory while the device is there.
    fn open(&self, path: &[u8]) -> Option<File> {
        let found = look_up(OsStr::from_bytes(path))?;
        let found = File::from(found);
        let metadata = found.metadata().ok()?;
        let is_device = metadata.file_type().is_block_device();
        let number = if is_device { metadata.rdev() } else { 0 };
        let is_it =
            (metadata.dev(), metadata.ino(), number) == (self.device, self.inode, self.number);
        if !is_it || !(is_device || metadata.is_file()) {
            return None;
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(flags.bits() as i32);
        let again = format!("/proc/self/fd/{}", found.as_raw_fd());
        options.open(again).ok()
    }
}

/// Finds a file by a path without links, and does not open it.
fn look_up(path: &OsStr) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    let mut tries = (0..TRIES).map(|_| openat2(CWD, path, flags, Mode::empty(), resolve));
    tries
        .find(|found| !matches!(found, Err(Errno::AGAIN)))?
        .ok()
}

#[cfg(test)]
mod tests;
