//! The reverse mode as a [`FileSystem`].

use vfs::{
    Attr, Caller, DirEntry, Error, Fallocate, FileSystem, Ino, Kind, NewNode, ROOT, ReadPieces,
    RenameMode, Result, Seek, SetAttr, SetXattr, StatFs, Trust,
};

use super::view::{ReverseNode, ReverseView};
use crate::engine::attributes::space;

impl FileSystem for ReverseView {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.look_up(parent, name)
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.inodes.forget(ino, count);
    }

    fn forget_all(&self) {
        self.inodes.forget_all();
    }

    fn trust(&self, _ino: Ino) -> Trust {
        self.options.trust()
    }

    fn generation(&self, found: &Attr) -> u64 {
        self.inodes
            .get(found.ino)
            .map_or(0, |inode| inode.generation)
    }

    fn opened(&self, ino: Ino, _is_new: bool) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        if self.options.shared {
            inode.close();
        }
        Ok(())
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.attr(&*self.inodes.get(ino)?)
    }

    fn setattr(&self, _: &Caller, _: Ino, _: &SetAttr) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        match &inode.node {
            ReverseNode::Plain(path) => self.keys.target(path, &inode.entry.target()?),
            _ => Err(Error::Invalid),
        }
    }

    fn mknod(&self, _: &Caller, _: Ino, _: &[u8], _: &NewNode) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn tmpfile(&self, _: &Caller, _: Ino, _: &NewNode) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn mkdir(&self, _: &Caller, _: Ino, _: &[u8], _: &NewNode) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn symlink(&self, _: &Caller, _: Ino, _: &[u8], _: &[u8]) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn unlink(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn rmdir(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn rename(&self, _: Ino, _: &[u8], _: Ino, _: &[u8], _: RenameMode) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces> {
        Ok(vec![self.read_file(ino, offset, len)?.into()])
    }

    fn write(&self, _: Ino, _: u64, _: &[u8], _: bool) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn fsync(&self, _: Ino, _: bool) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn fallocate(&self, _: Ino, _: u64, _: u64, _: Fallocate) -> Result<()> {
        Err(Error::ReadOnly)
    }

    /// A hole has ciphertext too.
    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let size = self.size_of(ino)?;
        match what {
            _ if offset >= size => Err(Error::NoSuchAddress),
            Seek::Data => Ok(offset),
            Seek::Hole => Ok(size),
        }
    }

    fn copy_range(&self, _: Ino, _: u64, _: Ino, _: u64, _: u64) -> Result<u64> {
        Err(Error::ReadOnly)
    }

    fn readdir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.read_dir(ino, cookie, attrs, emit)
    }

    fn statfs(&self) -> Result<StatFs> {
        space(&self.inodes.get(ROOT)?.entry, self.keys.name_max())
    }

    fn setxattr(&self, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<()> {
        Err(Error::ReadOnly)
    }

    /// Only the ACLs of entries, which decide who may read the ciphertext.
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        let is_shown = self.keys.shows_xattr(name)
            && !matches!(inode.node, ReverseNode::Made(_))
            && inode.kind != Kind::Symlink;
        match is_shown {
            true => inode.entry.xattr(name)?.ok_or(Error::NoAttribute),
            false => Err(Error::NoAttribute),
        }
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let inode = self.inodes.get(ino)?;
        if matches!(inode.node, ReverseNode::Made(_)) {
            return Ok(Vec::new());
        }
        let mut names = inode.entry.xattrs()?;
        names.retain(|name| self.keys.shows_xattr(name));
        Ok(names)
    }

    fn removexattr(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }
}
