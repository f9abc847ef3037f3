//! The reverse mode as a [`FileSystem`].

use vfs::{Attr, Error, FileSystem, Ino, Kind, ROOT, Result, Seek, Trust};

use super::view::{ReverseNode, ReverseView};
use crate::engine::attributes::space;

impl FileSystem for ReverseView {
    vfs::methods! { self;
        lookup(parent, name) => self.look_up(parent, name);
        getattr(ino) => self.attr(&*self.inodes.get(ino)?);
        setattr(_, _, _) => Err(Error::ReadOnly);
        mknod(_, _, _, _) => Err(Error::ReadOnly);
        tmpfile(_, _, _) => Err(Error::ReadOnly);
        mkdir(_, _, _, _) => Err(Error::ReadOnly);
        symlink(_, _, _, _) => Err(Error::ReadOnly);
        link(_, _, _) => Err(Error::ReadOnly);
        unlink(_, _) => Err(Error::ReadOnly);
        rmdir(_, _) => Err(Error::ReadOnly);
        rename(_, _, _, _, _) => Err(Error::ReadOnly);
        read(ino, offset, len) => Ok(vec![self.read_file(ino, offset, len)?.into()]);
        write(_, _, _, _) => Err(Error::ReadOnly);
        fsync(_, _) => Ok(());
        sync() => Ok(());
        fallocate(_, _, _, _) => Err(Error::ReadOnly);
        copy_range(_, _, _, _, _) => Err(Error::ReadOnly);
        readdir(ino, cookie, attrs, emit) => self.read_dir(ino, cookie, attrs, emit);
        statfs() => space(&self.inodes.get(ROOT)?.entry, self.keys.name_max());
        setxattr(_, _, _, _) => Err(Error::ReadOnly);
        removexattr(_, _) => Err(Error::ReadOnly);
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

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        match &inode.node {
            ReverseNode::Plain(path) => self.keys.target(path, &inode.entry.target()?),
            _ => Err(Error::Invalid),
        }
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
}
