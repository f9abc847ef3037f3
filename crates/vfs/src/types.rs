//! Inodes, attributes and the arguments of operations.

/// An inode number. [`ROOT`] is the root directory; 0 is never valid.
pub type Ino = u64;

/// True for an extended attribute of the namespace `system` that Linux does not know. The kernel checks no permission for
/// it, so a file system must not store it.
pub fn is_unknown_system_xattr(name: &[u8]) -> bool {
    let is_acl =
        name == b"system.posix_acl_access".as_slice() || name == b"system.posix_acl_default";
    name.starts_with(b"system.") && !is_acl
}

/// The root directory of every file system.
pub const ROOT: Ino = 1;

/// The directory in the root that has a snapshot in each of its entries, the oldest first.
pub const SNAPSHOT_DIR: &[u8] = b".snapshot";

/// A point in time: seconds since 1970 UTC and nanoseconds, 0 to 999,999,999.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds; negative before 1970.
    pub secs: i64,
    /// Nanoseconds after `secs`.
    pub nanos: u32,
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice,
    /// A directory.
    Directory,
    /// A block device.
    BlockDevice,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A unix socket.
    Socket,
}

impl Kind {
    /// The four bits under `S_IFMT`, shifted down (`DT_*` of `readdir`).
    pub const fn bits(self) -> u8 {
        match self {
            Kind::Fifo => 1,
            Kind::CharDevice => 2,
            Kind::Directory => 4,
            Kind::BlockDevice => 6,
            Kind::File => 8,
            Kind::Symlink => 10,
            Kind::Socket => 12,
        }
    }

    /// The kind with these bits, if there is one.
    pub const fn from_bits(bits: u8) -> Option<Kind> {
        Some(match bits {
            1 => Kind::Fifo,
            2 => Kind::CharDevice,
            4 => Kind::Directory,
            6 => Kind::BlockDevice,
            8 => Kind::File,
            10 => Kind::Symlink,
            12 => Kind::Socket,
            _ => return None,
        })
    }
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// The kind of the inode.
    pub kind: Kind,
    /// Permission bits with set-user-ID, set-group-ID and sticky: `0o7777`.
    pub mode: u16,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, in the kernel's encoding (`new_encode_dev`).
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Allocated, in units of 512 bytes.
    pub blocks: u64,
    /// True if `blocks` is about to change without a change of the file: a front end asks again each time.
    pub is_passing: bool,
    /// The best size for I/O, in bytes.
    pub blksize: u32,
    /// Last read.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
}

/// The process that makes a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// File system user ID.
    pub uid: u32,
    /// File system group ID.
    pub gid: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// A given time.
    At(Time),
}

/// The attributes to change, and their new values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits, `0o7777`.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Truncate or extend to this many bytes.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of the contents.
    pub mtime: Option<SetTime>,
    /// Last change of the attributes; the present if absent.
    pub ctime: Option<Time>,
    /// Clear set-user-ID, and set-group-ID of an executable, as a chown or an unprivileged
    /// truncation does.
    pub kill_suidgid: bool,
}

/// A node to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// The kind of the new node.
    pub kind: Kind,
    /// Permission bits before the umask, `0o7777`.
    pub mode: u16,
    /// The caller's umask; not applied where the parent has a default ACL.
    pub umask: u16,
    /// Device number of a device node.
    pub rdev: u32,
}

impl NewNode {
    /// With these permission bits, and no umask; not a device node.
    pub const fn new(kind: Kind, mode: u16) -> NewNode {
        NewNode {
            kind,
            mode,
            umask: 0,
            rdev: 0,
        }
    }
}

/// The treatment of an existing file with the new name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace it.
    #[default]
    Replace,
    /// Fail with [`crate::Error::Exists`] if it exists.
    NoReplace,
    /// Exchange the two atomically; both must exist.
    Exchange,
    /// Replace it, and make a whiteout of this owner at the old name in the same step: a character device with the
    /// number 0. It hides the name of a lower layer of an overlay.
    Whiteout(Caller),
}

/// The change of a range by `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Make sure there is space; extend the file unless `keep_size`.
    Allocate {
        /// Leave the size as it is.
        keep_size: bool,
    },
    /// Make it a hole; the size stays.
    Punch,
    /// Make it read as zeros; extend the file unless `keep_size`.
    Zero {
        /// Leave the size as it is.
        keep_size: bool,
    },
}

/// The kind of range that `seek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// `SEEK_DATA`
    Data,
    /// `SEEK_HOLE`
    Hole,
}

/// The treatment of an existing value by `setxattr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetXattr {
    /// `XATTR_CREATE`: fail if it exists.
    pub create: bool,
    /// `XATTR_REPLACE`: fail if it does not.
    pub replace: bool,
    /// An ACL is set by a user outside the file's group: clear set-group-ID.
    pub kill_sgid: bool,
}

/// The flags that `chattr` sets on a file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFlags {
    /// The inode is never changed, and gets and loses no names (`i`).
    pub immutable: bool,
    /// Contents are only added to a file, and names to a directory (`a`).
    pub append_only: bool,
    /// Programs that make backups leave it out (`d`).
    pub no_dump: bool,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'a> {
    /// The inode.
    pub ino: Ino,
    /// The kind of the inode.
    pub kind: Kind,
    /// The name.
    pub name: &'a [u8],
    /// The cookie of the next entry.
    pub cookie: u64,
    /// The attributes, if they were requested.
    pub attr: Option<Attr>,
}

/// Space and inode counts of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes to a block.
    pub block_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Blocks free for ordinary users.
    pub blocks_available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// The longest name, in bytes.
    pub name_max: u32,
}
