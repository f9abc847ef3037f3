//! The engine as a [`FileSystem`].

use vfs::{
    Attr, Caller, DirEntry, Error, Fallocate, FileSystem, Ino, Kind, NewNode, ReadPieces,
    RenameMode, Result, Seek, SetAttr, SetXattr, StatFs, Trust,
};

use super::stacked_directory::StackedDirectory;
use crate::formats::DirectoryFormat;
use crate::lower::posix;

impl<F: DirectoryFormat> FileSystem for StackedDirectory<F> {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.look_up(parent, name)
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.inodes.forget(ino, count);
    }

    fn forget_all(&self) {
        self.inodes.forget_all();
    }

    fn trust(&self, ino: Ino) -> Trust {
        let is_directory =
            || matches!(self.inodes.get(ino), Ok(inode) if inode.kind == Kind::Directory);
        match self.options.trust() {
            // Those who change keys wait.
            Trust::Lasting if self.format.keys_change() && is_directory() => Trust::Brief,
            trust => trust,
        }
    }

    fn generation(&self, found: &Attr) -> u64 {
        match self.format.keys_change() {
            true => self
                .inodes
                .get(found.ino)
                .map_or(0, |inode| inode.generation),
            false => 0,
        }
    }

    fn opened(&self, ino: Ino, is_new: bool) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        if self.format.heeds_opens() {
            inode.count_open(|| self.format.check_key(&inode.node))?;
        }
        if self.options.shared && !is_new {
            inode.close();
        }
        Ok(())
    }

    fn released(&self, ino: Ino) {
        if let Ok(inode) = self.inodes.get(ino) {
            inode.count_release(|| self.format.closed(&inode.node));
        }
    }

    fn flush(&self, ino: Ino) -> Result<()> {
        self.inodes.get(ino)?.flush()
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.attr(&*self.inodes.get(ino)?)
    }

    fn setattr(&self, _caller: &Caller, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.format.check_change()?;
        self.set_attr(ino, set)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.target_of(&*self.inodes.get(ino)?)
    }

    fn mknod(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.format.check_change()?;
        self.make(caller, parent, name, node)
    }

    fn tmpfile(&self, caller: &Caller, parent: Ino, node: &NewNode) -> Result<Attr> {
        self.format.check_change()?;
        self.make_tmpfile(caller, parent, node)
    }

    fn mkdir(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.format.check_change()?;
        self.make(caller, parent, name, node)
    }

    fn symlink(&self, caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Result<Attr> {
        self.format.check_change()?;
        self.make_symlink(caller, parent, name, target)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.format.check_change()?;
        self.make_link(ino, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.format.check_change()?;
        self.remove(parent, name)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.format.check_change()?;
        self.remove_dir(parent, name)
    }

    fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.format.check_change()?;
        self.move_name((parent, name), (new_parent, new_name), mode)
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces> {
        self.read_file(ino, offset, len)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], kill_suidgid: bool) -> Result<()> {
        self.format.check_change()?;
        self.write_file(ino, offset, data, kill_suidgid)
    }

    fn fsync(&self, ino: Ino, datasync: bool) -> Result<()> {
        self.sync_inode(ino, datasync)
    }

    fn sync(&self) -> Result<()> {
        let root = self.inodes.get(vfs::ROOT)?;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        rustix::fs::syncfs(root.entry.reopen(flags)?).map_err(posix)
    }

    fn fallocate(&self, ino: Ino, offset: u64, len: u64, mode: Fallocate) -> Result<()> {
        self.format.check_change()?;
        self.allocate(ino, offset, len, mode)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        self.seek_file(ino, offset, what)
    }

    /// The caller has to copy: equal files have different ciphertexts.
    fn copy_range(&self, _: Ino, _: u64, _: Ino, _: u64, _: u64) -> Result<u64> {
        Err(Error::NotSupported)
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
        self.stat_fs()
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.format.check_change()?;
        self.set_xattr(ino, name, value, how)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.get_xattr(ino, name)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.list_xattr(ino)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.format.check_change()?;
        self.remove_xattr(ino, name)
    }
}
