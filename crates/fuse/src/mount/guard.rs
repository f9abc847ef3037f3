//! The guard on the directory below a mount: nothing is written to it while nothing is mounted there.
//!
//! A guarded directory has mode 0, which stops ordinary users, and the immutable flag, which stops root. Neither
//! hides what is mounted on it. The flag needs a file system of the kernel that has it, and the capability
//! `CAP_LINUX_IMMUTABLE`. It also needs a path that no other user can change, because that user could not remove the
//! directory. Without the flag the mode is all the guard.
//!
//! The daemon of an ordinary user closes a directory by its mode: also its owner makes nothing there. `fusermount3`
//! needs a directory that the user can write to, so the mode is another one for the moment of the mount.

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{IFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::mount::foreign::{self, step};
use crate::mount::open_directory::in_proc;

/// `FUSE_SUPER_MAGIC`
const FUSE: rustix::fs::FsWord = 0x6573_5546;

/// The mode of a guarded directory.
pub(crate) const GUARDED: Mode = Mode::empty();
/// The mode of one that has a mountpoint in it, which users have to reach.
const PASSABLE: Mode = Mode::XUSR.union(Mode::XGRP).union(Mode::XOTH);

/// The mode of a directory that an ordinary user's daemon closed. It may have a mountpoint in it.
const CLOSED: Mode = PASSABLE;
/// The mode while that daemon uses it. No other program makes a directory with it.
const IN_USE: Mode = Mode::RWXU.union(Mode::SVTX);

/// A directory of an ordinary user that is closed by its mode. The user can use it until this is dropped.
pub(crate) struct Opening(OwnedFd);

impl Opening {
    /// Opens a closed directory. `None` if it is not closed by its mode.
    pub(crate) fn of(dir: OwnedFd) -> Option<Opening> {
        is_closed(&dir).then_some(())?;
        set_mode(&dir, IN_USE).ok()?;
        Some(Opening(dir))
    }

    fn at(above: BorrowedFd<'_>, name: &OsStr) -> Option<Opening> {
        let dir = step(above, name).ok()?;
        foreign::refuse(above, &dir, Path::new(name)).ok()?;
        Opening::of(dir)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Err(error) = set_mode(&self.0, CLOSED) {
            tracing::warn!(%error, "the directory of a mount stays open");
        }
    }
}

/// Returns whether a directory of this ordinary user was closed by its mode, or is in use.
pub(crate) fn is_closed(dir: &OwnedFd) -> bool {
    let user = rustix::process::geteuid();
    let Ok(stat) = rustix::fs::fstat(dir) else {
        return false;
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    !user.is_root()
        && stat.st_uid == user.as_raw()
        && (mode == CLOSED || mode == IN_USE)
        && !is_fuse(dir)
}

/// Closes a directory that has just been made, unless it is in a dataset: the mode would go into snapshots and streams.
pub(crate) fn close(dir: &OwnedFd) {
    if !is_fuse(dir)
        && let Err(error) = set_mode(dir, CLOSED)
    {
        tracing::warn!(%error, "the directory of a mount stays open");
    }
}

fn is_fuse(dir: &OwnedFd) -> bool {
    rustix::fs::fstatfs(dir).is_ok_and(|stat| stat.f_type == FUSE)
}

/// Changes the mode of a directory that is open for no more than its name.
fn set_mode(dir: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmod(in_proc(dir), mode)
}

/// A directory with the guard, which only this program puts there: flag, mode and owner.
pub(crate) struct DirectoryGuard {
    dir: OwnedFd,
    flags: IFlags,
}

impl DirectoryGuard {
    /// Sets the flag on a directory that has just been made, where that is possible.
    pub(crate) fn put(above: BorrowedFd<'_>, name: &OsStr) {
        if let Err(error) = open(above, name).and_then(|dir| {
            // In a dataset the flag would go into snapshots and streams.
            if is_fuse(&dir) {
                return Err(Errno::OPNOTSUPP);
            }
            let flags = rustix::fs::ioctl_getflags(&dir)?;
            rustix::fs::ioctl_setflags(&dir, flags | IFlags::IMMUTABLE)
        }) {
            tracing::debug!(%error, ?name, "a mountpoint has no immutable flag");
        }
    }

    /// The guard of a directory, if it has one.
    pub(crate) fn of(above: BorrowedFd<'_>, name: &OsStr) -> Option<DirectoryGuard> {
        let dir = open(above, name).ok()?;
        let stat = rustix::fs::fstat(&dir).ok()?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        let flags = rustix::fs::ioctl_getflags(&dir).ok()?;
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw()
            && (mode == GUARDED || mode == PASSABLE)
            && flags.contains(IFlags::IMMUTABLE);
        is_ours.then_some(DirectoryGuard { dir, flags })
    }

    /// Does something to the directory that its flag forbids. The guard stays lifted after success if
    /// `for_good`.
    pub(crate) fn lifted<T>(
        &self,
        for_good: bool,
        change: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        rustix::fs::ioctl_setflags(&self.dir, self.flags - IFlags::IMMUTABLE)?;
        let changed = change();
        if changed.is_err() || !for_good {
            rustix::fs::ioctl_setflags(&self.dir, self.flags)?;
        }
        changed
    }
}

/// Makes a directory in one that may have a guard. Users can reach it then.
pub(crate) fn make(above: BorrowedFd<'_>, name: &OsStr, mode: Mode) -> Result<(), Errno> {
    let make = || rustix::fs::mkdirat(above, name, mode);
    match make() {
        Err(Errno::PERM) => match DirectoryGuard::of(above, OsStr::new(".")) {
            Some(guard) => guard.lifted(false, || {
                make()?;
                rustix::fs::fchmod(&guard.dir, PASSABLE)
            }),
            None => make(),
        },
        Err(Errno::ACCESS) => {
            let _open = Opening::at(above, OsStr::new("."));
            make()
        }
        made => made,
    }
}

/// Removes a directory that may have a guard, from one that may have one.
pub(crate) fn remove(above: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let unlink = || rustix::fs::unlinkat(above, name, rustix::fs::AtFlags::REMOVEDIR);
    let below = || match DirectoryGuard::of(above, name) {
        Some(guard) => guard.lifted(true, unlink),
        None => unlink(),
    };
    match below() {
        Err(Errno::PERM) => match DirectoryGuard::of(above, OsStr::new(".")) {
            Some(guard) => guard.lifted(false, below),
            None => below(),
        },
        Err(Errno::ACCESS) => {
            let _open = Opening::at(above, OsStr::new("."));
            below()
        }
        removed => removed,
    }
}

/// Returns whether a directory has the immutable flag, whatever set it.
pub(crate) fn is_immutable(dir: BorrowedFd<'_>) -> bool {
    open(dir, OsStr::new("."))
        .and_then(rustix::fs::ioctl_getflags)
        .is_ok_and(|flags| flags.contains(IFlags::IMMUTABLE))
}

/// Opens a directory for its flags.
fn open(above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    // To open a directory for reading is a request, if it is a FUSE file system.
    let dir = step(above, name)?;
    foreign::refuse(above, &dir, Path::new(name)).map_err(|_| Errno::BUSY)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&dir, ".", flags, Mode::empty())
}
