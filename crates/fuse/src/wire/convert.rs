//! Conversions between the structures of the kernel and the types of `vfs`.
//!
//! Nearly every answer is valid for many years. Every change of a mounted file system goes through its mount, so the
//! cache of the kernel never goes stale, missing names included. The exceptions are files that the file system calls
//! volatile, and attributes that it calls passing.

use std::time::Duration;

use vfs::{
    Attr, Caller, Fallocate, FileFlags, Kind, NewNode, RenameMode, Seek, SetAttr, SetTime, StatFs,
    Time,
};

use crate::wire::abi::{self, fattr};

/// The time for which the kernel may trust an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Valid {
    secs: u64,
    nanos: u32,
}

impl Valid {
    /// Until something is changed through the mount.
    pub(crate) const LONG: Valid = Valid {
        secs: 1 << 32,
        nanos: 0,
    };
    /// For some calls, as of a program that lists a directory and asks for each name in it. As long as libfuse has it
    /// for file systems that say nothing.
    pub(crate) const SHORT: Valid = Valid { secs: 1, nanos: 0 };
    /// For the call that asked.
    pub(crate) const ONCE: Valid = Valid { secs: 0, nanos: 0 };
}

/// The time after a change of keys for which kept names last: a second, and a tick of the kernel's clock.
pub const NAMES_KEPT: Duration = Duration::from_millis(1020);

const PERMISSIONS: u32 = 0o7777;

pub(crate) fn attr(attr: &Attr) -> abi::Attr {
    abi::Attr {
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        // The kernel reads these as signed.
        atime: attr.atime.secs.cast_unsigned(),
        mtime: attr.mtime.secs.cast_unsigned(),
        ctime: attr.ctime.secs.cast_unsigned(),
        atimensec: attr.atime.nanos,
        mtimensec: attr.mtime.nanos,
        ctimensec: attr.ctime.nanos,
        mode: mode(attr),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.blksize,
        flags: 0,
    }
}

fn mode(attr: &Attr) -> u32 {
    u32::from(attr.kind.bits()) << 12 | u32::from(attr.mode) & PERMISSIONS
}

/// A user or group that the kernel does not tell: it has checked itself what depends on that.
pub(crate) const UNKNOWN_ID: u32 = u32::MAX;

pub(crate) fn attr_out(found: &Attr, valid: Valid) -> abi::AttrOut {
    abi::AttrOut {
        attr_valid: valid.secs,
        attr_valid_nsec: valid.nanos,
        attr: attr(found),
        ..Default::default()
    }
}

pub(crate) fn entry(found: &Attr, name_valid: Valid, attr_valid: Valid) -> abi::EntryOut {
    abi::EntryOut {
        nodeid: found.ino,
        entry_valid: name_valid.secs,
        entry_valid_nsec: name_valid.nanos,
        attr_valid: attr_valid.secs,
        attr_valid_nsec: attr_valid.nanos,
        attr: attr(found),
        ..Default::default()
    }
}

/// A name that does not exist, and will not unless it is made through the mount.
pub(crate) fn no_entry() -> abi::EntryOut {
    abi::EntryOut {
        entry_valid: Valid::LONG.secs,
        ..Default::default()
    }
}

pub(crate) fn statx(found: &Attr, flags: FileFlags, valid: Valid) -> abi::StatxOut {
    let attributes = [
        (abi::statx::IMMUTABLE, flags.immutable),
        (abi::statx::APPEND, flags.append_only),
        (abi::statx::NODUMP, flags.no_dump),
    ];
    let time = |time: Time| abi::SxTime {
        tv_sec: time.secs,
        tv_nsec: time.nanos,
        reserved: 0,
    };
    abi::StatxOut {
        attr_valid: valid.secs,
        attr_valid_nsec: valid.nanos,
        stat: abi::Statx {
            mask: abi::STATX_MASK,
            blksize: found.blksize,
            attributes: attributes
                .iter()
                .fold(0, |bits, (bit, is_set)| bits | (bit * u64::from(*is_set))),
            attributes_mask: attributes.iter().fold(0, |bits, (bit, _)| bits | bit),
            nlink: found.nlink,
            uid: found.uid,
            gid: found.gid,
            // Sixteen bits: four of the kind and twelve of permissions.
            mode: (mode(found) & 0xffff) as u16,
            ino: found.ino,
            size: found.size,
            blocks: found.blocks,
            atime: time(found.atime),
            btime: time(found.btime),
            ctime: time(found.ctime),
            mtime: time(found.mtime),
            // The inverse of `new_encode_dev`.
            rdev_major: (found.rdev & 0xfff00) >> 8,
            rdev_minor: found.rdev & 0xff | (found.rdev >> 12) & 0xfff00,
            ..Default::default()
        },
        ..Default::default()
    }
}

pub(crate) fn statfs(stat: &StatFs) -> abi::StatfsOut {
    abi::StatfsOut {
        blocks: stat.blocks,
        bfree: stat.blocks_free,
        bavail: stat.blocks_available,
        files: stat.files,
        ffree: stat.files_free,
        bsize: stat.block_size,
        namelen: stat.name_max,
        frsize: stat.block_size,
        ..Default::default()
    }
}

pub(crate) fn set_attr(args: &abi::SetattrIn) -> SetAttr {
    let has = |flag| args.valid & flag != 0;
    let time = |secs: u64, nanos: u32| Time {
        secs: secs.cast_signed(),
        nanos,
    };
    let set_time = |flag, now, at| match (has(flag), has(now)) {
        (false, _) => None,
        (true, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(at)),
    };
    SetAttr {
        mode: has(fattr::MODE).then_some(permissions(args.mode)),
        uid: has(fattr::UID).then_some(args.uid),
        gid: has(fattr::GID).then_some(args.gid),
        size: has(fattr::SIZE).then_some(args.size),
        atime: set_time(
            fattr::ATIME,
            fattr::ATIME_NOW,
            time(args.atime, args.atimensec),
        ),
        mtime: set_time(
            fattr::MTIME,
            fattr::MTIME_NOW,
            time(args.mtime, args.mtimensec),
        ),
        ctime: has(fattr::CTIME).then(|| time(args.ctime, args.ctimensec)),
        kill_suidgid: has(fattr::KILL_SUIDGID),
    }
}

/// A node of the kind that is in the upper bits of `mode`; none if there is no such kind.
pub(crate) fn new_node(mode: u32, umask: u32, rdev: u32) -> Option<NewNode> {
    Some(NewNode {
        kind: Kind::from_bits(((mode >> 12) & 0xf) as u8)?,
        ..node(Kind::File, mode, umask, rdev)
    })
}

pub(crate) fn node(kind: Kind, mode: u32, umask: u32, rdev: u32) -> NewNode {
    NewNode {
        kind,
        mode: permissions(mode),
        umask: permissions(umask),
        rdev,
    }
}

fn permissions(mode: u32) -> u16 {
    (mode & PERMISSIONS) as u16
}

/// The flags of `renameat2`, one at a time.
pub(crate) fn rename_mode(flags: u32, caller: Caller) -> Option<RenameMode> {
    match flags {
        0 => Some(RenameMode::Replace),
        1 => Some(RenameMode::NoReplace),
        2 => Some(RenameMode::Exchange),
        4 => Some(RenameMode::Whiteout(caller)),
        _ => None,
    }
}

/// The modes of `fallocate` that FUSE passes on.
pub(crate) fn fallocate(mode: u32) -> Option<Fallocate> {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2;
    const ZERO_RANGE: u32 = 0x10;
    let keep_size = mode & KEEP_SIZE != 0;
    match mode & !KEEP_SIZE {
        0 => Some(Fallocate::Allocate { keep_size }),
        PUNCH_HOLE => keep_size.then_some(Fallocate::Punch),
        ZERO_RANGE => Some(Fallocate::Zero { keep_size }),
        _ => None,
    }
}

pub(crate) fn seek(whence: u32) -> Option<Seek> {
    match whence {
        3 => Some(Seek::Data),
        4 => Some(Seek::Hole),
        _ => None,
    }
}

/// Returns whether a write with these flags of `open` has to be durable before the answer. True means that the
/// contents are enough, and what is needed to read them.
pub(crate) fn sync_of(open_flags: u32) -> Option<bool> {
    const O_DSYNC: u32 = 0o10_000;
    // The other one of the two bits of `O_SYNC`.
    const SYNC: u32 = 0o4_000_000;
    (open_flags & (O_DSYNC | SYNC) != 0).then_some(open_flags & SYNC == 0)
}
