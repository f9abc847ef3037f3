//! Open directories.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

/// Returns whether something is mounted on a directory.
pub(crate) fn is_mount(dir: &OwnedFd) -> io::Result<bool> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(dir, "", flags, StatxFlags::empty())?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Returns whether a directory is on a mount whose server was killed.
pub(crate) fn has_lost_server(dir: &OwnedFd) -> bool {
    // Attributes may still be cached; this always asks.
    let asked = rustix::fs::fstatfs(dir);
    matches!(asked, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// The name of an open directory in `/proc`, which means it wherever it is moved.
pub(crate) fn in_proc(dir: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}
