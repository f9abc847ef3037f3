//! A file, directory, link or special file, by a descriptor that does no more than name it (`O_PATH`). It stays the same
//! one, whatever happens to its name. No symbolic link is followed, so nothing leads out of the directory that the caller
//! named.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Beneath the directory, and through no link.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

#[derive(Debug)]
pub(crate) struct FileNode {
    file: File,
    /// The metadata of the file when it was opened or looked at again.
    pub(crate) meta: Metadata,
}

/// The device and inode number, which tell a file from all others.
pub(crate) type FileId = (u64, u64);

impl FileNode {
    /// The directory at a path, which is resolved as any path is: the caller chose it.
    pub(crate) fn root(path: &Path) -> io::Result<FileNode> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        FileNode::of(rustix::fs::open(path, flags, Mode::empty())?)
    }

    fn of(fd: OwnedFd) -> io::Result<FileNode> {
        let file = File::from(fd);
        let meta = file.metadata()?;
        Ok(FileNode { file, meta })
    }

    /// The directory that this one is in; the root is in itself.
    pub(crate) fn parent(&self) -> io::Result<FileNode> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.file, c"..", flags, Mode::empty())?;
        FileNode::of(fd)
    }

    /// Opens the entry of this name, or this path, beneath this directory.
    pub(crate) fn child(&self, name: impl AsRef<OsStr>) -> io::Result<Option<FileNode>> {
        match self.open_child(name.as_ref(), OFlags::PATH, Mode::empty()) {
            Ok(fd) => FileNode::of(fd.into()).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a child as [`FileNode::child`] does, but fails with `EXDEV` where something is mounted.
    pub(crate) fn child_on_mount(&self, name: &OsStr) -> io::Result<Option<FileNode>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = BENEATH | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(&self.file, name, flags, Mode::empty(), resolve) {
            Ok(fd) => FileNode::of(fd).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether this is a directory with the mode of a mountpoint that the daemon closed
    /// (`fuse::MountDirectory`).
    pub(crate) fn is_closed(&self) -> bool {
        let mode = self.meta.mode() & 0o7777;
        let is_own = self.meta.uid() == rustix::process::geteuid().as_raw();
        self.meta.is_dir() && is_own && (mode == 0 || mode == 0o111)
    }

    /// Opens what has this name in this directory.
    pub(crate) fn open_child(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat2(&self.file, name, flags, mode, BENEATH)?;
        Ok(fd.into())
    }

    /// Opens it to be read, without a new access time if the system allows that.
    pub(crate) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::open(self.proc_path(), flags, Mode::empty());
        let fd = match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => open(flags),
            opened => opened,
        };
        Ok(fd?.into())
    }

    /// The names in this directory, sorted.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = self.listed()?;
        names.sort_unstable();
        Ok(names)
    }

    /// The names in this directory, in the order of its file system.
    pub(crate) fn listed(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.open()?)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// The target of this symbolic link.
    pub(crate) fn link_text(&self) -> io::Result<OsString> {
        let text = rustix::fs::readlinkat(&self.file, c"", Vec::new())?;
        Ok(OsStr::from_bytes(text.to_bytes()).to_owned())
    }

    /// Looks at it again.
    pub(crate) fn look(&mut self) -> io::Result<&Metadata> {
        self.meta = self.file.metadata()?;
        Ok(&self.meta)
    }

    pub(crate) fn identity(&self) -> FileId {
        (self.meta.dev(), self.meta.ino())
    }

    /// A path to it that nothing can redirect, for system calls that take no descriptor of this kind. It leads to a
    /// symbolic link itself, and not to where the link points to.
    pub(crate) fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

impl AsFd for FileNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The time of modification, to the nanosecond.
pub(crate) fn mtime(meta: &Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
}

/// The length of a file, and when its contents and the file itself were changed.
pub(crate) type FileVersion = (u64, (i64, i64), (i64, i64));

/// The version of a file, which is different after any change.
pub(crate) fn version(meta: &Metadata) -> FileVersion {
    let changed = (meta.ctime(), meta.ctime_nsec());
    (meta.len(), mtime(meta), changed)
}
