//! A file system that stores nothing: what FUSE itself allows.
//!
//! It has one directory. It keeps names and sizes, reads give zeros, and writes are dropped.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use vfs::{
    Attr, Caller, DirEntry, Error, Fallocate, FileSystem, Ino, Kind, NewNode, ROOT, ReadPieces,
    RenameMode, Result, Seek, SetAttr, SetXattr, StatFs, Time,
};

/// The most that the kernel asks for at once.
const READ_MAX: usize = 1 << 20;

pub(super) struct Null {
    files: RwLock<NullFiles>,
    ready: Bytes,
}

#[derive(Default)]
struct NullFiles {
    names: HashMap<Vec<u8>, Ino>,
    sizes: HashMap<Ino, u64>,
    last: Ino,
}

impl Null {
    pub(super) fn new() -> Null {
        Null {
            files: RwLock::default(),
            ready: vec![0; READ_MAX].into(),
        }
    }

    fn files(&self) -> RwLockReadGuard<'_, NullFiles> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, NullFiles> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NullFiles {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        let (kind, size) = match ino {
            ROOT => (Kind::Directory, 0),
            ino => (Kind::File, *self.sizes.get(&ino).ok_or(Error::Stale)?),
        };
        Ok(Attr {
            ino,
            kind,
            mode: 0o700,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            size,
            blocks: size.div_ceil(512),
            is_passing: false,
            blksize: 4096,
            atime: Time::default(),
            mtime: Time::default(),
            ctime: Time::default(),
            btime: Time::default(),
        })
    }
}

impl FileSystem for Null {
    fn lookup(&self, _: Ino, name: &[u8]) -> Result<Attr> {
        let files = self.files();
        files.attr(*files.names.get(name).ok_or(Error::NotFound)?)
    }

    fn forget(&self, _: Ino, _: u64) {}

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.files().attr(ino)
    }

    fn setattr(&self, _: &Caller, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let mut files = self.files_mut();
        if let (Some(size), Some(is)) = (set.size, files.sizes.get_mut(&ino)) {
            *is = size;
        }
        files.attr(ino)
    }

    fn mknod(&self, _: &Caller, _: Ino, name: &[u8], _: &NewNode) -> Result<Attr> {
        let mut files = self.files_mut();
        files.last = files.last.max(ROOT) + 1;
        let ino = files.last;
        files.names.insert(name.to_vec(), ino);
        files.sizes.insert(ino, 0);
        files.attr(ino)
    }

    fn unlink(&self, _: Ino, name: &[u8]) -> Result<()> {
        let mut files = self.files_mut();
        let ino = files.names.remove(name).ok_or(Error::NotFound)?;
        files.sizes.remove(&ino);
        Ok(())
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces> {
        let size = self.files().attr(ino)?.size;
        let len = u64::from(len).min(size.saturating_sub(offset)) as usize;
        Ok(vec![self.ready.slice(..len.min(READ_MAX))])
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], _: bool) -> Result<()> {
        let end = offset + data.len() as u64;
        if self.files().attr(ino)?.size < end
            && let Some(size) = self.files_mut().sizes.get_mut(&ino)
        {
            *size = end.max(*size);
        }
        Ok(())
    }

    fn fsync(&self, _: Ino, _: bool) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            block_size: 4096,
            name_max: 255,
            ..StatFs::default()
        })
    }

    fn listxattr(&self, _: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn getxattr(&self, _: Ino, _: &[u8]) -> Result<Vec<u8>> {
        Err(Error::NoAttribute)
    }

    // What a measurement does not ask for.

    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Error::NotSupported)
    }

    fn tmpfile(&self, _: &Caller, _: Ino, _: &NewNode) -> Result<Attr> {
        Err(Error::NotSupported)
    }

    fn mkdir(&self, _: &Caller, _: Ino, _: &[u8], _: &NewNode) -> Result<Attr> {
        Err(Error::NotSupported)
    }

    fn symlink(&self, _: &Caller, _: Ino, _: &[u8], _: &[u8]) -> Result<Attr> {
        Err(Error::NotSupported)
    }

    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(Error::NotSupported)
    }

    fn rmdir(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn rename(&self, _: Ino, _: &[u8], _: Ino, _: &[u8], _: RenameMode) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn fallocate(&self, _: Ino, _: u64, _: u64, _: Fallocate) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn seek(&self, _: Ino, _: u64, _: Seek) -> Result<u64> {
        Err(Error::NotSupported)
    }

    fn copy_range(&self, _: Ino, _: u64, _: Ino, _: u64, _: u64) -> Result<u64> {
        Err(Error::NotSupported)
    }

    fn readdir(
        &self,
        _: Ino,
        _: u64,
        _: bool,
        _: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn setxattr(&self, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<()> {
        Err(Error::NotSupported)
    }

    fn removexattr(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::NotSupported)
    }
}
