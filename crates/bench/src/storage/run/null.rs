//! A file system that stores nothing: what FUSE itself allows.
//!
//! It has one directory. It keeps names and sizes, reads give zeros, and writes are dropped.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use vfs::{
    Attr, Caller, Error, FileSystem, Ino, Kind, NewNode, ROOT, ReadPieces, Result, SetAttr, StatFs,
    Time,
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
    vfs::methods! { self;
        getattr(ino) => self.files().attr(ino);
        fsync(_, _) => Ok(());
        sync() => Ok(());
        statfs() => Ok(StatFs { block_size: 4096, name_max: 255, ..StatFs::default() });
        listxattr(_) => Ok(Vec::new());
        getxattr(_, _) => Err(Error::NoAttribute);
        // What a measurement does not ask for.
        readlink(_) => Err(Error::NotSupported);
        tmpfile(_, _, _) => Err(Error::NotSupported);
        mkdir(_, _, _, _) => Err(Error::NotSupported);
        symlink(_, _, _, _) => Err(Error::NotSupported);
        link(_, _, _) => Err(Error::NotSupported);
        rmdir(_, _) => Err(Error::NotSupported);
        rename(_, _, _, _, _) => Err(Error::NotSupported);
        fallocate(_, _, _, _) => Err(Error::NotSupported);
        seek(_, _, _) => Err(Error::NotSupported);
        copy_range(_, _, _, _, _) => Err(Error::NotSupported);
        readdir(_, _, _, _) => Err(Error::NotSupported);
        setxattr(_, _, _, _) => Err(Error::NotSupported);
        removexattr(_, _) => Err(Error::NotSupported);
    }

    fn lookup(&self, _: Ino, name: &[u8]) -> Result<Attr> {
        let files = self.files();
        files.attr(*files.names.get(name).ok_or(Error::NotFound)?)
    }

    fn forget(&self, _: Ino, _: u64) {}

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
}
