//! The interface of a file system.
//!
//! A front end (FUSE) serves a [`FileSystem`]. A dataset of a pool and a stacked directory implement it. It has the
//! operations of POSIX on inode numbers, in types of this project, so that neither side depends on the other.
//!
//! Names and xattr names are bytes: every byte except `/` and NUL may occur, as on Linux. The front end checks
//! permissions (with the kernel's `default_permissions`). An implementation checks only what the kernel cannot know.

mod error;
mod methods;
mod types;

pub use error::{Error, Result};
pub use types::{
    Attr, Caller, DirEntry, Fallocate, FileFlags, Ino, Kind, NewNode, ROOT, RenameMode,
    SNAPSHOT_DIR, Seek, SetAttr, SetTime, SetXattr, StatFs, Time, is_unknown_system_xattr,
};

/// The pieces of a read, in order; their total length is what was read.
pub type ReadPieces = Vec<bytes::Bytes>;

/// The time for which a front end may rely on an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Until it is changed through this front end: there is no other way to change it.
    Lasting,
    /// For a second: it can change by other ways, and those who change it so can wait.
    Brief,
    /// Attributes, and the names of directories, for a second. The name of a file is asked for by each call: by
    /// an old one a program would write to a file that has another name now, or at an old end.
    BriefAttributes,
    /// For the call that asked.
    Once,
}

/// A mounted file system.
///
/// Every call may be made from any thread at any time. Inodes are counted: each [`Attr`] that
/// `lookup`, `create`, `mknod`, `mkdir`, `symlink`, `link`, `tmpfile` or an accepted `readdir`
/// entry with attributes hands out is one lookup, which the front end gives back with `forget`. An
/// inode without links lives for as long as it has lookups.
pub trait FileSystem: Send + Sync {
    /// Finds `name` in the directory `parent`, or with the name `.` an inode of any kind by its number. One lookup.
    ///
    /// # Errors
    /// `NotFound` if there is no such name, `NotDirectory` if `parent` is no directory, `NameTooLong`, `Stale`,
    /// `Io`.
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// Gives back `count` lookups of `ino`.
    fn forget(&self, ino: Ino, count: u64);

    /// Gives back every lookup there is. The front end has gone, without saying for each inode what
    /// it still held (the kernel does not when a file system is unmounted).
    fn forget_all(&self) {}

    /// The inodes with lookups. A front end that is ended by force forgets the contents of these; of others it may keep
    /// what it has read.
    fn known(&self) -> Vec<Ino> {
        Vec::new()
    }

    /// Returns for how long a front end may keep the names in `ino`, and its attributes.
    fn trust(&self, _ino: Ino) -> Trust {
        Trust::Lasting
    }

    /// A number that tells the things apart which an inode number has been, one after the other. A front end gives
    /// errors for what it knows by another one.
    fn generation(&self, _found: &Attr) -> u64 {
        0
    }

    /// A program opens the file `ino`; `is_new` if it has just made it. A front end that keeps what it has read
    /// need not say so.
    ///
    /// # Errors
    /// `NoKey` if its contents cannot be used.
    fn opened(&self, _ino: Ino, _is_new: bool) -> Result<()> {
        Ok(())
    }

    /// A program has closed the file `ino` for good: once for each [`FileSystem::opened`].
    fn released(&self, _ino: Ino) {}

    /// A program closes a descriptor of the file `ino`: what it wrote is to be visible to other clients.
    ///
    /// # Errors
    /// Those of writing.
    fn flush(&self, _ino: Ino) -> Result<()> {
        Ok(())
    }

    /// The attributes of `ino`.
    ///
    /// # Errors
    /// `Stale` if there is no such inode, `Io`.
    fn getattr(&self, ino: Ino) -> Result<Attr>;

    /// Does the same as [`FileSystem::getattr`], for a caller who looks only at kind, mode and owner. It is asked
    /// before many
    /// changes, and need not count blocks.
    ///
    /// # Errors
    /// As [`FileSystem::getattr`].
    fn owner(&self, ino: Ino) -> Result<Attr> {
        self.getattr(ino)
    }

    /// Changes attributes, and returns the new ones.
    ///
    /// # Errors
    /// `NotPermitted`, `Invalid` if the inode cannot have what is set, `FileTooBig`, `NoSpace`, `Quota`,
    /// `ReadOnly`, `Stale`, `Io`.
    fn setattr(&self, caller: &Caller, ino: Ino, set: &SetAttr) -> Result<Attr>;

    /// Returns the flags of a file or directory.
    ///
    /// # Errors
    /// `NotImplemented` if nothing can be marked, `Stale`, `Io`.
    fn flags(&self, _ino: Ino) -> Result<FileFlags> {
        Err(Error::NotImplemented)
    }

    /// Marks a file or directory. The front end has checked who may do so. From now on the marks bind every
    /// caller.
    ///
    /// # Errors
    /// `NotImplemented` if nothing can be marked, `NoSpace`, `ReadOnly`, `Stale`, `Io`.
    fn set_flags(&self, _ino: Ino, _flags: FileFlags) -> Result<()> {
        Err(Error::NotImplemented)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` if it is no symbolic link, `Stale`, `Io`.
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>>;

    /// Makes a file, FIFO, socket or device node. One lookup.
    ///
    /// # Errors
    /// `Exists` if the name is taken, `NotDirectory` if `parent` is no directory, `NameTooLong`, `NoSpace`,
    /// `Quota`, `ReadOnly`, `Stale` if `parent` is gone, `Io`.
    fn mknod(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr>;

    /// Makes a regular file to be opened at once. One lookup. The file must not exist.
    ///
    /// # Errors
    /// As [`FileSystem::mknod`].
    fn create(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.mknod(caller, parent, name, node)
    }

    /// Makes a regular file without a name in the file system of `parent` (`O_TMPFILE`). One lookup.
    ///
    /// # Errors
    /// `NotDirectory`, `NoSpace`, `Quota`, `ReadOnly`, `Stale`, `Io`; `NotSupported` if there are no such
    /// files.
    fn tmpfile(&self, caller: &Caller, parent: Ino, node: &NewNode) -> Result<Attr>;

    /// Makes a directory. One lookup.
    ///
    /// # Errors
    /// As [`FileSystem::mknod`], and `TooManyLinks`.
    fn mkdir(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr>;

    /// Makes a symbolic link. One lookup.
    ///
    /// # Errors
    /// As [`FileSystem::mknod`]; `NameTooLong` also for the target.
    fn symlink(&self, caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Result<Attr>;

    /// Makes a hard link to `ino`. One lookup.
    ///
    /// # Errors
    /// As [`FileSystem::mknod`]; `NotPermitted` for a directory, and `TooManyLinks`.
    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// Removes a name that is not the name of a directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory` if `parent` is no directory, `IsDirectory`, `NoSpace`, `ReadOnly`, `Stale`,
    /// `Io`.
    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`, `NoSpace`, `ReadOnly`, `Stale`, `Io`.
    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Renames, or exchanges, two names.
    ///
    /// # Errors
    /// `NotFound`, `Exists` if the mode allows no replacement, `NotEmpty`, `NotDirectory` or `IsDirectory` if
    /// the kinds differ, `Invalid` for a directory that would lie in itself, or a whiteout where none can be made,
    /// `TooManyLinks`, `NameTooLong`,
    /// `NoSpace`, `Quota`, `ReadOnly`, `Stale`, `Io`.
    fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()>;

    /// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// `IsDirectory`, `Stale`, `Io` if the contents are damaged or a device failed.
    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces>;

    /// Writes all of `data` at `offset`. With `kill_suidgid` the set-user-ID and set-group-ID bits
    /// go (the writer was not privileged).
    ///
    /// # Errors
    /// `IsDirectory`, `FileTooBig`, `NoSpace`, `Quota`, `ReadOnly`, `Stale`, `Io`.
    fn write(&self, ino: Ino, offset: u64, data: &[u8], kill_suidgid: bool) -> Result<()>;

    /// Makes the contents and attributes of `ino` durable.
    ///
    /// # Errors
    /// `Stale`, `Io` if something is not durable.
    fn fsync(&self, ino: Ino, datasync: bool) -> Result<()>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// `Io` if something is not durable.
    fn sync(&self) -> Result<()>;

    /// Allocates, punches or zeroes a range.
    ///
    /// # Errors
    /// `NotSupported` for a mode that is not known, `Invalid`, `FileTooBig`, `NoSpace`, `Quota`, `ReadOnly`,
    /// `Stale`, `Io`.
    fn fallocate(&self, ino: Ino, offset: u64, len: u64, mode: Fallocate) -> Result<()>;

    /// The next data or hole at or after `offset`; `Error::NoSuchAddress` past the end.
    ///
    /// # Errors
    /// `NoSuchAddress` past the end, `Stale`, `Io`.
    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64>;

    /// Copies between files, sharing storage where it can. Returns how many bytes were copied.
    ///
    /// # Errors
    /// `Invalid` if the ranges overlap, `IsDirectory`, `FileTooBig`, `NoSpace`, `Quota`, `ReadOnly`, `Stale`,
    /// `Io`; `NotSupported` if the caller has to copy.
    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64>;

    /// Lists `ino` from after `cookie` (0: from the start), calling `emit` until it returns false
    /// or the directory ends. With `attrs` each entry but `.` and `..` carries attributes, and each
    /// accepted one is a lookup.
    ///
    /// # Errors
    /// `NotDirectory`, `Stale`, `Io`.
    fn readdir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()>;

    /// Space and inode counts.
    ///
    /// # Errors
    /// `Io`.
    fn statfs(&self) -> Result<StatFs>;

    /// Sets an extended attribute. One that [`is_unknown_system_xattr`] is `NotSupported`.
    ///
    /// # Errors
    /// `Exists` or `NoAttribute` if `how` does not allow it, `Range`, `TooBig`, `NotSupported`, `NotPermitted`,
    /// `NoSpace`, `Quota`, `ReadOnly`, `Stale`, `Io`.
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()>;

    /// The value of an extended attribute; `Error::NoAttribute` if there is none.
    ///
    /// # Errors
    /// `NoAttribute` if there is none, `Stale`, `Io`.
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>>;

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// `Stale`, `Io`.
    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute` if there is none, `NotPermitted`, `NoSpace`, `ReadOnly`, `Stale`, `Io`.
    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()>;
}
