//! Attributes of files, and counts of the file system.

use std::sync::Arc;

use rustix::fs::{AtFlags, Statx, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use vfs::{Attr, Ino, Kind, Result, SetAttr, SetTime, StatFs, Time, Trust};

use super::stacked_directory::StackedDirectory;
use super::state::inode::LowerInode;
use crate::formats::DirectoryFormat;
use crate::lower::{Entry, posix};

/// Set-user-ID and set-group-ID.
const SUID: u16 = 0o4000;
pub(super) const SGID: u16 = 0o2000;

impl<F: DirectoryFormat> StackedDirectory<F> {
    /// The attributes that the view shows.
    pub(super) fn attr(&self, inode: &LowerInode<F::Node>) -> Result<Attr> {
        self.attr_of(inode, &self.stat(&inode.entry)?)
    }

    /// Returns the attributes from `statx`, and on a network the present ones: the size decides where a program
    /// appends.
    pub(super) fn stat(&self, entry: &Entry) -> Result<Statx> {
        match self.options.trust() {
            Trust::Once => entry.stat_of_server(),
            _ => entry.stat(),
        }
    }

    /// The attributes that the view shows of an inode with these ones in the lower directory.
    pub(super) fn attr_of(&self, inode: &LowerInode<F::Node>, stat: &Statx) -> Result<Attr> {
        let size = match inode.kind {
            Kind::File => {
                let size = self.size_of(inode, stat.stx_size)?;
                inode.check_extent(size);
                size
            }
            Kind::Symlink => inode.target_len(|| self.target_of(inode))?,
            _ => stat.stx_size,
        };
        Ok(shown(stat, inode.ino, inode.kind, size))
    }

    pub(super) fn target_of(&self, inode: &LowerInode<F::Node>) -> Result<Vec<u8>> {
        let stored = inode.entry.target()?;
        self.format.open_target(&inode.node, &stored)
    }

    pub(super) fn set_attr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let inode = self.inodes.get(ino)?;
        if let Some(size) = set.size {
            self.truncate(&inode, size)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            inode.entry.chown(set.uid, set.gid)?;
        }
        if set.kill_suidgid {
            self.kill_suidgid(&inode)?;
        }
        if let Some(mode) = set.mode {
            inode.entry.chmod(mode)?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let times = Timestamps {
                last_access: to_set(set.atime),
                last_modification: to_set(set.mtime),
            };
            rustix::fs::utimensat(&inode.entry, c"", &times, AtFlags::EMPTY_PATH).map_err(posix)?;
        }
        self.attr(&inode)
    }

    /// Takes set-user-ID from a file, and set-group-ID if it is executable by the group.
    pub(super) fn kill_suidgid(&self, inode: &Arc<LowerInode<F::Node>>) -> Result<()> {
        let mode = inode.entry.stat()?.stx_mode & 0o7777;
        let group = match mode & 0o010 {
            0 => 0,
            _ => SGID,
        };
        let kept = mode & !(SUID | group);
        match inode.kind == Kind::File && kept != mode {
            true => inode.entry.chmod(kept),
            false => Ok(()),
        }
    }
}

/// The attributes of a lower entry, with the number, the kind and the size that the view has.
pub(super) fn shown(stat: &Statx, ino: Ino, kind: Kind, size: u64) -> Attr {
    Attr {
        ino,
        kind,
        mode: stat.stx_mode & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: device(stat),
        size,
        blocks: stat.stx_blocks,
        is_passing: false,
        blksize: stat.stx_blksize,
        atime: time(stat.stx_atime),
        mtime: time(stat.stx_mtime),
        ctime: time(stat.stx_ctime),
        btime: time(stat.stx_btime),
    }
}

/// The counts of the lower file system.
pub(super) fn space(root: &Entry, name_max: u32) -> Result<StatFs> {
    let lower = rustix::fs::fstatvfs(root).map_err(posix)?;
    Ok(StatFs {
        block_size: lower.f_frsize.try_into().unwrap_or(4096),
        blocks: lower.f_blocks,
        blocks_free: lower.f_bfree,
        blocks_available: lower.f_bavail,
        files: lower.f_files,
        files_free: lower.f_ffree,
        name_max,
    })
}

/// A device number as the kernel's `new_encode_dev` has it.
fn device(stat: &Statx) -> u32 {
    let (major, minor) = (stat.stx_rdev_major, stat.stx_rdev_minor);
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

fn time(time: StatxTimestamp) -> Time {
    Time {
        secs: time.tv_sec,
        nanos: time.tv_nsec,
    }
}

fn to_set(time: Option<SetTime>) -> Timespec {
    let special = |nanos| Timespec {
        tv_sec: 0,
        tv_nsec: nanos,
    };
    match time {
        None => special(UTIME_OMIT),
        Some(SetTime::Now) => special(UTIME_NOW),
        Some(SetTime::At(time)) => Timespec {
            tv_sec: time.secs,
            tv_nsec: time.nanos.into(),
        },
    }
}
