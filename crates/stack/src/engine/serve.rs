//! The engine as a [`FileSystem`].

use rustix::fs::XattrFlags;
use vfs::{Attr, Error, FileSystem, Ino, Kind, Result, SetXattr, StatFs, Trust};

use super::attributes::{SGID, space};
use super::stacked_directory::StackedDirectory;
use crate::formats::DirectoryFormat;
use crate::lower::posix;

impl<F: DirectoryFormat> StackedDirectory<F> {
    /// Makes a change, if the format allows changes.
    fn changing<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.format.check_change()?;
        change()
    }
}

impl<F: DirectoryFormat> FileSystem for StackedDirectory<F> {
    vfs::methods! { self;
        lookup(parent, name) => self.look_up(parent, name);
        getattr(ino) => self.attr(&*self.inodes.get(ino)?);
        readlink(ino) => self.target_of(&*self.inodes.get(ino)?);
        read(ino, offset, len) => self.read_file(ino, offset, len);
        fsync(ino, datasync) => self.sync_inode(ino, datasync);
        seek(ino, offset, what) => self.seek_file(ino, offset, what);
        /// The caller has to copy: equal files have different ciphertexts.
        copy_range(_, _, _, _, _) => Err(Error::NotSupported);
        readdir(ino, cookie, attrs, emit) => self.read_dir(ino, cookie, attrs, emit);
        setattr(_, ino, set) => self.changing(|| self.set_attr(ino, set));
        mknod(caller, parent, name, node) => self.changing(|| self.make(caller, parent, name, node));
        tmpfile(caller, parent, node) => self.changing(|| self.make_tmpfile(caller, parent, node));
        mkdir(caller, parent, name, node) => self.changing(|| self.make(caller, parent, name, node));
        symlink(caller, parent, name, target) => self.changing(|| self.make_symlink(caller, parent, name, target));
        link(ino, parent, name) => self.changing(|| self.make_link(ino, parent, name));
        unlink(parent, name) => self.changing(|| self.remove(parent, name));
        rmdir(parent, name) => self.changing(|| self.remove_dir(parent, name));
        rename(parent, name, new_parent, new_name, mode) =>
            self.changing(|| self.move_name((parent, name), (new_parent, new_name), mode));
        write(ino, offset, data, kill_suidgid) => self.changing(|| self.write_file(ino, offset, data, kill_suidgid));
        fallocate(ino, offset, len, mode) => self.changing(|| self.allocate(ino, offset, len, mode));
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

    fn sync(&self) -> Result<()> {
        let root = self.inodes.get(vfs::ROOT)?;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        rustix::fs::syncfs(root.entry.reopen(flags)?).map_err(posix)
    }

    fn statfs(&self) -> Result<StatFs> {
        let root = self.inodes.get(vfs::ROOT)?;
        space(&root.entry, self.format.name_max())
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.format.check_change()?;
        let inode = self.inodes.get(ino)?;
        if vfs::is_unknown_system_xattr(name) {
            return Err(Error::NotSupported);
        }
        if self.format.is_own_xattr(name) {
            return Err(Error::NotPermitted);
        }
        let lower = self.format.lower_xattr(name)?;
        let value = self.format.seal_xattr(name, value)?;
        let mut flags = XattrFlags::empty();
        flags.set(XattrFlags::CREATE, how.create);
        flags.set(XattrFlags::REPLACE, how.replace);
        inode.entry.set_xattr(lower, &value, flags)?;
        let mode = inode.entry.stat()?.stx_mode & 0o7777;
        match how.kill_sgid && mode & SGID != 0 {
            true => inode.entry.chmod(mode & !SGID),
            false => Ok(()),
        }
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        if self.format.is_own_xattr(name) {
            return Err(Error::NoAttribute);
        }
        let lower = self.format.lower_xattr(name)?;
        let stored = inode.entry.xattr(lower)?.ok_or(Error::NoAttribute)?;
        self.format.open_xattr(name, stored)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let inode = self.inodes.get(ino)?;
        let names = inode.entry.xattrs()?.into_iter();
        Ok(names
            .filter_map(|name| self.format.plain_xattr(name))
            .collect())
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.format.check_change()?;
        let inode = self.inodes.get(ino)?;
        match self.format.is_own_xattr(name) {
            true => Err(Error::NotPermitted),
            false => (inode.entry).remove_xattr(&self.format.lower_xattr(name)?),
        }
    }
}
