//! The kernel's side of the wire: `linux/fuse.h`, protocol 7.45.
//!
//! The structures are written out here because the known crates stop before `TMPFILE`, `STATX`, `SYNCFS` and the
//! second word of flags. Every byte of them comes from or goes to the kernel, in the byte order of the machine.
//! `zerocopy` proves that they have no padding, and the sizes are asserted below. Names follow the header, without
//! its prefixes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The protocol's major version.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version this module describes.
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version served: Linux 5.4, which has everything that is not optional here.
pub(crate) const MINOR_MIN: u32 = 31;

macro_rules! wire {
    ($($(#[$doc:meta])* $name:ident: $size:literal { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $ty,)* }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

wire! {
    /// The beginning of each request. `total_extlen` counts units of 8 bytes at the end.
    InHeader: 40 {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }
    /// The beginning of each reply. `error` is 0 or a negative errno.
    OutHeader: 16 { len: u32, error: i32, unique: u64, }
    /// Attributes of an inode.
    Attr: 88 {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32,
        mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
    /// A name that was found or made. `nodeid` 0: there is none, and that may be cached.
    EntryOut: 128 {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    AttrOut: 104 { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, }
    OpenOut: 16 { fh: u64, open_flags: u32, backing_id: i32, }
    ForgetIn: 8 { nlookup: u64, }
    ForgetOne: 16 { nodeid: u64, nlookup: u64, }
    BatchForgetIn: 8 { count: u32, dummy: u32, }
    MknodIn: 16 { mode: u32, rdev: u32, umask: u32, padding: u32, }
    MkdirIn: 8 { mode: u32, umask: u32, }
    RenameIn: 8 { newdir: u64, }
    Rename2In: 16 { newdir: u64, flags: u32, padding: u32, }
    LinkIn: 8 { oldnodeid: u64, }
    SetattrIn: 88 {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64,
        ctime: u64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }
    CreateIn: 16 { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    ReadIn: 40 {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteIn: 40 {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    WriteOut: 8 { size: u32, padding: u32, }
    StatfsOut: 80 {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }
    FsyncIn: 16 { fh: u64, fsync_flags: u32, padding: u32, }
    /// With `SETXATTR_EXT`; without it only the first two fields are there.
    SetxattrIn: 16 { size: u32, flags: u32, setxattr_flags: u32, padding: u32, }
    /// The part of [`SetxattrIn`] that exists without `SETXATTR_EXT`.
    SetxattrInCompat: 8 { size: u32, flags: u32, }
    GetxattrIn: 8 { size: u32, padding: u32, }
    GetxattrOut: 8 { size: u32, padding: u32, }
    /// The part of the handshake that every kernel sends.
    InitIn: 16 { major: u32, minor: u32, max_readahead: u32, flags: u32, }
    /// The part after [`InitIn`], if `INIT_EXT` is among the flags.
    InitInExt: 48 { flags2: u32, unused: [u32; 11], }
    InitOut: 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }
    FallocateIn: 32 { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    LseekIn: 24 { fh: u64, offset: u64, whence: u32, padding: u32, }
    LseekOut: 8 { offset: u64, }
    CopyFileRangeIn: 56 {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
    CopyFileRangeOut: 8 { bytes_copied: u64, }
    IoctlIn: 32 { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    IoctlOut: 16 { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, }
    /// `struct fsxattr` of `linux/fs.h`.
    FsXattr: 28 {
        xflags: u32, extsize: u32, nextents: u32, projid: u32, cowextsize: u32, pad: [u32; 2],
    }
    SxTime: 16 { tv_sec: i64, tv_nsec: u32, reserved: i32, }
    /// `struct statx`.
    Statx: 256 {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: SxTime,
        btime: SxTime, ctime: SxTime, mtime: SxTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    StatxOut: 288 {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx,
    }
    NotifyInvalInodeOut: 24 { ino: u64, off: i64, len: i64, }
    /// The name follows, with a zero at its end.
    NotifyInvalEntryOut: 16 { parent: u64, namelen: u32, flags: u32, }
    NotifyRetrieveOut: 32 { notify_unique: u64, nodeid: u64, offset: u64, size: u32, padding: u32, }
    /// The beginning of a directory entry. The name follows, padded to 8 bytes.
    Dirent: 24 { ino: u64, off: u64, namelen: u32, kind: u32, }
}

/// Numbers of the operations.
pub(crate) mod op {
    macro_rules! operations {
        ($($name:ident = $number:literal,)*) => {
            $(pub(crate) const $name: u32 = $number;)*

            /// The name of an operation.
            pub(crate) const fn name(number: u32) -> &'static str {
                match number {
                    $($number => stringify!($name),)*
                    _ => "OTHER",
                }
            }
        };
    }

    operations! {
        LOOKUP = 1,
        FORGET = 2,
        GETATTR = 3,
        SETATTR = 4,
        READLINK = 5,
        SYMLINK = 6,
        MKNOD = 8,
        MKDIR = 9,
        UNLINK = 10,
        RMDIR = 11,
        RENAME = 12,
        LINK = 13,
        OPEN = 14,
        READ = 15,
        WRITE = 16,
        STATFS = 17,
        RELEASE = 18,
        FSYNC = 20,
        SETXATTR = 21,
        GETXATTR = 22,
        LISTXATTR = 23,
        REMOVEXATTR = 24,
        FLUSH = 25,
        INIT = 26,
        OPENDIR = 27,
        READDIR = 28,
        RELEASEDIR = 29,
        FSYNCDIR = 30,
        ACCESS = 34,
        CREATE = 35,
        INTERRUPT = 36,
        DESTROY = 38,
        IOCTL = 39,
        NOTIFY_REPLY = 41,
        BATCH_FORGET = 42,
        FALLOCATE = 43,
        READDIRPLUS = 44,
        RENAME2 = 45,
        LSEEK = 46,
        COPY_FILE_RANGE = 47,
        SYNCFS = 50,
        TMPFILE = 51,
        STATX = 52,
        COPY_FILE_RANGE_64 = 53,
    }
}

/// Flags of the handshake; those above 32 travel in `flags2`.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const ABORT_ERROR: u64 = 1 << 21;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub(crate) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const NO_EXPORT_SUPPORT: u64 = 1 << 38;
    pub(crate) const ALLOW_IDMAP: u64 = 1 << 40;
}

/// `fuse_setattr_in.valid`.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Flags of an opened file.
pub(crate) mod fopen {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
}

/// Commands of `ioctl`, of `linux/fs.h`.
pub(crate) mod ioctl {
    pub(crate) const GETFLAGS: u32 = 0x8008_6601;
    pub(crate) const SETFLAGS: u32 = 0x4008_6602;
    pub(crate) const FSGETXATTR: u32 = 0x801c_581f;
    pub(crate) const FSSETXATTR: u32 = 0x401c_5820;
    /// Discards free space.
    pub(crate) const FITRIM: u32 = 0xc018_5879;
}

/// A notification: contents of an inode are to be written back and forgotten.
pub(crate) const NOTIFY_INVAL_INODE: i32 = 2;
pub(crate) const NOTIFY_INVAL_ENTRY: i32 = 3;
/// A notification: contents of an inode are asked for, and come as a request.
pub(crate) const NOTIFY_RETRIEVE: i32 = 5;
/// `fuse_read_in.read_flags`: a program reads, and not the kernel for its cache.
pub(crate) const READ_LOCKOWNER: u32 = 1 << 1;
/// `fuse_write_in.write_flags`: the kernel writes back from its cache.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// `fuse_write_in.write_flags`.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `fuse_fsync_in.fsync_flags`: contents only.
pub(crate) const FSYNC_DATASYNC: u32 = 1 << 0;
/// `fuse_setxattr_in.setxattr_flags`: clear set-group-ID.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// `stx_attributes`.
pub(crate) mod statx {
    pub(crate) const IMMUTABLE: u64 = 0x10;
    pub(crate) const APPEND: u64 = 0x20;
    pub(crate) const NODUMP: u64 = 0x40;
}

/// `STATX_BASIC_STATS | STATX_BTIME`.
pub(crate) const STATX_MASK: u32 = 0x0fff;
