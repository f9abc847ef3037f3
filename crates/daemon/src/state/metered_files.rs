//! A file system around another that counts what is asked of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use meter::{Operation, Totals};
use vfs::{
    Attr, Caller, DirEntry, Error, Fallocate, FileSystem, Ino, NewNode, ReadPieces, RenameMode,
    Result, Seek, SetAttr, SetXattr, StatFs,
};

/// Names of operations, as metrics have them.
const NAMES: [&str; 26] = [
    "lookup",
    "getattr",
    "setattr",
    "readlink",
    "mknod",
    "create",
    "tmpfile",
    "mkdir",
    "symlink",
    "link",
    "unlink",
    "rmdir",
    "rename",
    "read",
    "write",
    "fsync",
    "sync",
    "fallocate",
    "seek",
    "copy",
    "readdir",
    "statfs",
    "setxattr",
    "getxattr",
    "listxattr",
    "removexattr",
];

/// Operations, in the order of [`NAMES`].
#[derive(Clone, Copy)]
enum Op {
    Lookup,
    Getattr,
    Setattr,
    Readlink,
    Mknod,
    Create,
    Tmpfile,
    Mkdir,
    Symlink,
    Link,
    Unlink,
    Rmdir,
    Rename,
    Read,
    Write,
    Fsync,
    Sync,
    Fallocate,
    Seek,
    Copy,
    Readdir,
    Statfs,
    Setxattr,
    Getxattr,
    Listxattr,
    Removexattr,
}

/// What was asked of a mount.
#[derive(Debug, Default)]
pub(crate) struct FilesMeter {
    operations: [Operation; NAMES.len()],
    /// Answers that were an input/output error: the only ones that are never the asker's doing.
    io_errors: AtomicU64,
}

impl FilesMeter {
    /// What was counted of each operation that was ever asked for.
    pub(crate) fn totals(&self) -> Vec<(&'static str, Totals)> {
        let all = NAMES.iter().zip(&self.operations);
        all.map(|(name, operation)| (*name, operation.totals()))
            .filter(|(_, totals)| totals.times.count() > 0)
            .collect()
    }

    pub(crate) fn io_errors(&self) -> u64 {
        self.io_errors.load(Ordering::Relaxed)
    }

    fn count<T>(
        &self,
        op: Op,
        bytes: impl FnOnce(&T) -> u64,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let operation = &self.operations[op as usize];
        let begin = Instant::now();
        let result = act();
        match &result {
            Ok(answer) => operation.done(begin.elapsed(), bytes(answer)),
            Err(error) => {
                operation.failed(begin.elapsed());
                if matches!(error, Error::Io) {
                    self.io_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        result
    }
}

/// A file system whose operations are counted.
pub(crate) struct MeteredFiles {
    fs: Arc<dyn FileSystem>,
    meter: Arc<FilesMeter>,
}

impl MeteredFiles {
    /// Counts in `meter` what is asked of `fs` through this.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, meter: Arc<FilesMeter>) -> MeteredFiles {
        MeteredFiles { fs, meter }
    }

    fn count<T>(&self, op: Op, act: impl FnOnce(&dyn FileSystem) -> Result<T>) -> Result<T> {
        self.meter.count(op, |_| 0, || act(self.fs.as_ref()))
    }
}

impl FileSystem for MeteredFiles {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.count(Op::Lookup, |fs| fs.lookup(parent, name))
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.fs.forget(ino, count);
    }

    fn forget_all(&self) {
        self.fs.forget_all();
    }

    fn is_volatile(&self, ino: Ino) -> bool {
        self.fs.is_volatile(ino)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.count(Op::Getattr, |fs| fs.getattr(ino))
    }

    fn setattr(&self, caller: &Caller, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.count(Op::Setattr, |fs| fs.setattr(caller, ino, set))
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.count(Op::Readlink, |fs| fs.readlink(ino))
    }

    fn mknod(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.count(Op::Mknod, |fs| fs.mknod(caller, parent, name, node))
    }

    fn create(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.count(Op::Create, |fs| fs.create(caller, parent, name, node))
    }

    fn tmpfile(&self, caller: &Caller, parent: Ino, node: &NewNode) -> Result<Attr> {
        self.count(Op::Tmpfile, |fs| fs.tmpfile(caller, parent, node))
    }

    fn mkdir(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.count(Op::Mkdir, |fs| fs.mkdir(caller, parent, name, node))
    }

    fn symlink(&self, caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Result<Attr> {
        self.count(Op::Symlink, |fs| fs.symlink(caller, parent, name, target))
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.count(Op::Link, |fs| fs.link(ino, parent, name))
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.count(Op::Unlink, |fs| fs.unlink(parent, name))
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.count(Op::Rmdir, |fs| fs.rmdir(parent, name))
    }

    fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.count(Op::Rename, |fs| {
            fs.rename(parent, name, new_parent, new_name, mode)
        })
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces> {
        let bytes = |pieces: &ReadPieces| pieces.iter().map(|piece| piece.len() as u64).sum();
        let read = || self.fs.read(ino, offset, len);
        self.meter.count(Op::Read, bytes, read)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], kill_suidgid: bool) -> Result<()> {
        let write = || self.fs.write(ino, offset, data, kill_suidgid);
        self.meter.count(Op::Write, |()| data.len() as u64, write)
    }

    fn fsync(&self, ino: Ino, datasync: bool) -> Result<()> {
        self.count(Op::Fsync, |fs| fs.fsync(ino, datasync))
    }

    fn sync(&self) -> Result<()> {
        self.count(Op::Sync, |fs| fs.sync())
    }

    fn fallocate(&self, ino: Ino, offset: u64, len: u64, mode: Fallocate) -> Result<()> {
        self.count(Op::Fallocate, |fs| fs.fallocate(ino, offset, len, mode))
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        self.count(Op::Seek, |fs| fs.seek(ino, offset, what))
    }

    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let copy = || self.fs.copy_range(from, from_offset, to, to_offset, len);
        self.meter.count(Op::Copy, |copied| *copied, copy)
    }

    fn readdir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.count(Op::Readdir, |fs| fs.readdir(ino, cookie, attrs, emit))
    }

    fn statfs(&self) -> Result<StatFs> {
        self.count(Op::Statfs, |fs| fs.statfs())
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.count(Op::Setxattr, |fs| fs.setxattr(ino, name, value, how))
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.count(Op::Getxattr, |fs| fs.getxattr(ino, name))
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.count(Op::Listxattr, |fs| fs.listxattr(ino))
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.count(Op::Removexattr, |fs| fs.removexattr(ino, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_name() {
        assert_eq!(NAMES[Op::Lookup as usize], "lookup");
        assert_eq!(NAMES[Op::Read as usize], "read");
        assert_eq!(NAMES[Op::Copy as usize], "copy");
        assert_eq!(NAMES[Op::Removexattr as usize], "removexattr");
        assert_eq!(Op::Removexattr as usize + 1, NAMES.len());
    }

    #[test]
    fn only_answers_that_nobody_asked_for_are_io_errors() {
        let meter = FilesMeter::default();
        let ok: Result<u64> = meter.count(Op::Copy, |n| *n, || Ok(7));
        ok.unwrap();
        for error in [Error::NotFound, Error::Io] {
            let answer: Result<()> = meter.count(Op::Lookup, |()| 0, || Err(error));
            answer.unwrap_err();
        }
        assert_eq!(meter.io_errors(), 1);
        let totals = meter.totals();
        let names: Vec<_> = totals.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["lookup", "copy"]);
        assert_eq!((totals[0].1.errors, totals[1].1.bytes), (2, 7));
    }
}
