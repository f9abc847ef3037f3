//! An entry of the lower directory.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use parking_lot::RwLock;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Statx, StatxFlags, Uid, XattrFlags,
};
use rustix::io::{Errno, Result as Checked};
use vfs::{Error, Result};

use super::posix;

/// The longest value of an extended attribute on Linux.
const XATTR_MAX: usize = 64 << 10;

/// The fields that `statx` is asked for.
const STATX: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Held exclusively while a file has more permissions than it should ([`Entry::as_owner`]).
static LENT: RwLock<()> = RwLock::new(());

/// A file, directory, link or special file of the lower directory, opened for no more than naming it
/// (`O_PATH`). It stays the same one, whatever happens to its name.
#[derive(Debug)]
pub struct Entry(OwnedFd);

/// Types of file systems without owners and modes of their own: vfat, exFAT.
const OWNERLESS: [u64; 2] = [0x4d44, 0x2011_bab0];

/// Types of file systems of one machine (`statfs`, f_type): ext2 to ext4, XFS, Btrfs, F2FS, bcachefs, tmpfs, vfat,
/// exFAT.
const LOCAL: [u64; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    0x0102_1994,
    OWNERLESS[0],
    OWNERLESS[1],
];

impl Entry {
    /// The directory at `path`, which is resolved as any path is: the caller chose it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn root(path: &std::path::Path) -> Result<Entry> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
            .map(Entry)
            .map_err(posix)
    }

    /// Returns whether only this machine changes its file system, so that all that use it see each change at once.
    /// False if that is not known.
    pub fn is_local(&self) -> bool {
        self.is_of(&LOCAL)
    }

    /// Returns whether its file system gives each file an owner and a mode. If not, all files have those of its
    /// mount.
    pub(crate) fn has_owner(&self) -> bool {
        !self.is_of(&OWNERLESS)
    }

    fn is_of(&self, types: &[u64]) -> bool {
        rustix::fs::fstatfs(&self.0).is_ok_and(|stat| types.contains(&(stat.f_type as u64)))
    }

    /// The entry `name` of this directory. A link is not followed, and another file system that is
    /// mounted there is not entered.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; `CrossDevice` for a mountpoint.
    pub fn entry(&self, name: &[u8]) -> Result<Entry> {
        self.open(name, OFlags::PATH, Mode::empty()).map(Entry)
    }

    /// The entry that this descriptor stands for, whose name may be another one by now.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn of(file: impl AsFd) -> Result<Entry> {
        let path = proc_path(file.as_fd());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
            .map(Entry)
            .map_err(posix)
    }

    /// Opens the entry `name` of this directory, beneath it and on the same file system.
    ///
    /// # Errors
    /// As [`Entry::entry`], and those of `open`.
    pub fn open(&self, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        rustix::fs::openat2(&self.0, name, flags, mode, resolve).map_err(posix)
    }

    /// Opens the same entry again.
    ///
    /// # Errors
    /// `TooManyFiles`.
    pub(crate) fn try_clone(&self) -> Result<Entry> {
        let copy = rustix::io::fcntl_dupfd_cloexec(&self.0, 0);
        copy.map(Entry).map_err(posix)
    }

    /// Opens this directory or regular file itself.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn reopen(&self, flags: OFlags) -> Result<OwnedFd> {
        let path = self.proc_path();
        let bits = match flags.contains(OFlags::RDWR) {
            true => Mode::RUSR | Mode::WUSR,
            false => Mode::RUSR,
        };
        let open = || rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
        self.as_owner(bits, open).map_err(posix)
    }

    /// Opens like [`Entry::reopen`], without access times if the lower file system allows that: it asks for an
    /// owner's rights.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn reopen_without_atime(&self, flags: OFlags) -> Result<OwnedFd> {
        match self.reopen(flags | OFlags::NOATIME) {
            Err(Error::NotPermitted) => self.reopen(flags),
            opened => opened,
        }
    }

    /// Reads the attributes by `statx`.
    ///
    /// # Errors
    /// `Stale`, `Io`.
    pub fn stat(&self) -> Result<Statx> {
        let _none_lent = LENT.read();
        self.stat_now().map_err(posix)
    }

    /// The same, asked of the server: NFS keeps attributes for some seconds, also of a file that another client
    /// changed.
    ///
    /// # Errors
    /// As [`Entry::stat`].
    pub(crate) fn stat_of_server(&self) -> Result<Statx> {
        let _none_lent = LENT.read();
        self.stat_with(AtFlags::STATX_FORCE_SYNC).map_err(posix)
    }

    /// The device of its file system, as `mountinfo` writes it.
    ///
    /// # Errors
    /// As [`Entry::stat`].
    pub(crate) fn device(&self) -> Result<String> {
        let stat = self.stat()?;
        Ok(format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor))
    }

    fn stat_now(&self) -> Checked<Statx> {
        self.stat_with(AtFlags::empty())
    }

    fn stat_with(&self, flags: AtFlags) -> Checked<Statx> {
        let flags = flags | AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statx(&self.0, c"", flags, STATX)
    }

    /// The value of an extended attribute, if there is one.
    ///
    /// # Errors
    /// `Access`, `NotSupported` if the lower file system has none, `Io`.
    pub fn xattr(&self, name: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let (path, name) = (self.proc_path(), name.as_ref());
        let mut capacity = 256;
        loop {
            let got = self.as_owner(Mode::RUSR, || {
                let mut value = Vec::with_capacity(capacity);
                let spare = rustix::buffer::spare_capacity(&mut value);
                rustix::fs::getxattr(&path, name, spare).map(|_| value)
            });
            match got {
                Ok(got) => return Ok(Some(got)),
                Err(Errno::NODATA) => return Ok(None),
                Err(Errno::RANGE) if capacity < XATTR_MAX => capacity = XATTR_MAX,
                Err(error) => return Err(posix(error)),
            }
        }
    }

    /// Reads like [`Entry::xattr`], of this entry opened as `file`, which saves looking it up again.
    pub(crate) fn xattr_of(&self, file: &OwnedFd, name: &str) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::with_capacity(64);
        let spare = rustix::buffer::spare_capacity(&mut value);
        match rustix::fs::fgetxattr(file, name, spare) {
            Ok(_) => Ok(Some(value)),
            Err(Errno::NODATA) => Ok(None),
            // The mode may keep even the owner out, and the value may be longer.
            Err(_) => self.xattr(name),
        }
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// Those of `setxattr`.
    pub(crate) fn set_xattr(
        &self,
        name: impl AsRef<[u8]>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        let path = self.proc_path();
        let set = || rustix::fs::setxattr(&path, name.as_ref(), value, flags);
        self.as_owner(Mode::WUSR, set).map_err(posix)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// Those of `removexattr`.
    pub(crate) fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        let path = self.proc_path();
        let remove = || rustix::fs::removexattr(&path, name);
        self.as_owner(Mode::WUSR, remove).map_err(posix)
    }

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// Those of `listxattr`.
    pub(crate) fn xattrs(&self) -> Result<Vec<Vec<u8>>> {
        let mut names: Vec<u8> = Vec::with_capacity(XATTR_MAX);
        let spare = rustix::buffer::spare_capacity(&mut names);
        rustix::fs::listxattr(self.proc_path(), spare).map_err(posix)?;
        let names = names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// Reads the target of this symbolic link.
    ///
    /// # Errors
    /// `Invalid` if it is none, `Io`.
    pub fn target(&self) -> Result<Vec<u8>> {
        rustix::fs::readlinkat(&self.0, c"", Vec::new())
            .map(CString::into_bytes)
            .map_err(posix)
    }

    /// The contents of the regular file `name` in this directory, if it has no more than `limit`
    /// bytes.
    ///
    /// # Errors
    /// Those of `open` and `read`; `Io` for a longer one, or something other than a file.
    pub fn read_small(&self, name: &[u8], limit: usize) -> Result<Vec<u8>> {
        match self.read_start(name, limit + 1) {
            Ok(bytes) if bytes.len() > limit => Err(Error::Io),
            read => read,
        }
    }

    /// The first bytes of the regular file `name` in this directory, `len` at most.
    ///
    /// # Errors
    /// Those of `open` and `read`; `Io` for something other than a file.
    pub fn read_start(&self, name: &[u8], len: usize) -> Result<Vec<u8>> {
        // Opening a device has effects, and opening a FIFO waits.
        let entry = self.entry(name)?;
        if !FileType::from_raw_mode(entry.stat()?.stx_mode.into()).is_file() {
            return Err(Error::Io);
        }
        let file = entry.reopen(OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        let read = File::from(file).take(len as u64).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|_| Error::Io)
    }

    /// Changes the permission bits.
    ///
    /// # Errors
    /// Those of `chmod`.
    pub(crate) fn chmod(&self, mode: u16) -> Result<()> {
        // Giving a loan back sets the mode of before.
        let _none_lent = LENT.read();
        let mode = Mode::from_raw_mode(u32::from(mode));
        rustix::fs::chmod(self.proc_path(), mode).map_err(posix)
    }

    /// Changes owner and group.
    ///
    /// # Errors
    /// Those of `chown`.
    pub(crate) fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(&self.0, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(posix)
    }

    /// Calls something that needs these permissions of the owner. Where only they are missing, and
    /// this process is the owner, it lends them to itself: the view checks permissions, and a file
    /// without them still has a context to be read and a size to be set.
    fn as_owner<T>(&self, bits: Mode, call: impl Fn() -> Checked<T>) -> Checked<T> {
        match call() {
            Err(Errno::ACCESS) => {}
            result => return result,
        }
        let _lent = LENT.write();
        let mode = Mode::from_raw_mode(u32::from(self.stat_now()?.stx_mode) & 0o7777);
        if mode.contains(bits) {
            return call();
        }
        let path = self.proc_path();
        rustix::fs::chmod(&path, mode | bits).map_err(|_| Errno::ACCESS)?;
        let result = call();
        rustix::fs::chmod(&path, mode)?;
        result
    }

    /// A path to this entry that nothing can redirect, for the system calls that take no descriptor
    /// of this kind.
    pub(crate) fn proc_path(&self) -> String {
        proc_path(self.0.as_fd())
    }
}

fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

impl AsFd for Entry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
