//! Replacing a small file whole.

use std::fs::File;
use std::io::Write;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use vfs::{Error, Result};

use super::{Entry, posix};

/// Replaces the file `name` at once, or makes it. It is on the disk when this returns. It keeps its mode,
/// and for root its owner and group; `owner` is another owner. An error leaves the file as it was.
///
/// # Errors
/// Those of making, writing and renaming the file `temporary`.
pub(crate) fn replace(
    dir: &Entry,
    temporary: &[u8],
    name: &[u8],
    bytes: &[u8],
    owner: Option<u32>,
) -> Result<()> {
    let before = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let mode = before.map_or(0o600, |stat| stat.st_mode & 0o777);
    let owner = owner.or(before.map(|stat| stat.st_uid)).map(Uid::from_raw);
    let group = before.map(|stat| Gid::from_raw(stat.st_gid));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let file = dir.open(temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let write = || -> Result<()> {
        if rustix::process::geteuid().is_root() {
            rustix::fs::fchown(&file, owner, group).map_err(posix)?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(posix)?;
        let mut file = File::from(file);
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|error| {
            let errno = error.raw_os_error().unwrap_or_default();
            Error::from_errno(errno).unwrap_or(Error::Io)
        })?;
        rustix::fs::renameat(dir, temporary, dir, name).map_err(posix)
    };
    let written = write();
    if written.is_err() {
        let _ = rustix::fs::unlinkat(dir, temporary, AtFlags::empty());
    }
    written.and_then(|()| sync(dir))
}

/// Syncs a directory: names made, renamed and removed in it are on the disk when this returns.
///
/// # Errors
/// Those of `fsync`.
pub(crate) fn sync(dir: &Entry) -> Result<()> {
    let file = dir.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?;
    rustix::fs::fsync(file).map_err(posix)
}
