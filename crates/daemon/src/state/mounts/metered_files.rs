//! A file system around another one that counts its operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use meter::{OperationMeter, Totals};
use vfs::{
    Attr, Caller, DirEntry, Error, Fallocate, FileFlags, FileSystem, Ino, NewNode, ReadPieces,
    RenameMode, Result, Seek, SetAttr, SetXattr, StatFs, Trust,
};

/// The counts of the operations of a mount.
#[derive(Debug, Default)]
pub(crate) struct FilesMeter {
    operations: [OperationMeter; NAMES.len()],
    /// The number of input/output errors. A caller can cause all other errors, but not these.
    io_errors: AtomicU64,
}

impl FilesMeter {
    /// The counts of each operation that was called at least once.
    pub(crate) fn totals(&self) -> Vec<(&'static str, Totals)> {
        let all = NAMES.iter().zip(&self.operations);
        all.map(|(name, operation)| (*name, operation.totals()))
            .filter(|(_, totals)| totals.times.count() > 0)
            .collect()
    }

    /// The number of requests that use files: those of monitoring, which ask for the free space, do not count.
    pub(crate) fn requests(&self) -> u64 {
        let all = self.operations.iter().enumerate();
        let all = all.filter(|(op, _)| *op != Op::Statfs as usize);
        all.map(|(_, operation)| operation.totals().times.count())
            .sum()
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
    /// A file system that passes operations to `fs`, and counts them in `meter`.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, meter: Arc<FilesMeter>) -> MeteredFiles {
        MeteredFiles { fs, meter }
    }
}

/// Each row has the name of an operation in metrics, and its method. The closure returns the number of bytes for an
/// answer.
macro_rules! counted {
    ($($op:ident $name:literal $method:ident($($arg:ident: $type:ty),*) -> $answer:ty $(, $bytes:expr)?;)*) => {
        /// The names of operations in metrics.
        const NAMES: &[&str] = &[$($name),*];

        /// Operations, in the order of [`NAMES`].
        #[derive(Clone, Copy)]
        enum Op {
            $($op,)*
        }

        impl FileSystem for MeteredFiles {
            $(fn $method(&self $(, $arg: $type)*) -> Result<$answer> {
                let act = || self.fs.$method($($arg),*);
                self.meter.count(Op::$op, counted!(@bytes $($bytes)?), act)
            })*

            fn forget(&self, ino: Ino, count: u64) {
                self.fs.forget(ino, count);
            }

            fn forget_all(&self) {
                self.fs.forget_all();
            }

            fn known(&self) -> Vec<Ino> {
                self.fs.known()
            }

            fn trust(&self, ino: Ino) -> Trust {
                self.fs.trust(ino)
            }

            fn owner(&self, ino: Ino) -> Result<Attr> {
                self.meter.count(Op::Getattr, |_| 0, || self.fs.owner(ino))
            }

            fn generation(&self, found: &Attr) -> u64 {
                self.fs.generation(found)
            }
        }
    };
    (@bytes) => { |_| 0 };
    (@bytes $bytes:expr) => { $bytes };
}

counted! {
    Lookup "lookup" lookup(parent: Ino, name: &[u8]) -> Attr;
    Getattr "getattr" getattr(ino: Ino) -> Attr;
    Setattr "setattr" setattr(caller: &Caller, ino: Ino, set: &SetAttr) -> Attr;
    FileFlags "getflags" flags(ino: Ino) -> FileFlags;
    SetFlags "setflags" set_flags(ino: Ino, flags: FileFlags) -> ();
    Readlink "readlink" readlink(ino: Ino) -> Vec<u8>;
    Mknod "mknod" mknod(caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Attr;
    Create "create" create(caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Attr;
    Tmpfile "tmpfile" tmpfile(caller: &Caller, parent: Ino, node: &NewNode) -> Attr;
    Mkdir "mkdir" mkdir(caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Attr;
    Symlink "symlink" symlink(caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Attr;
    Link "link" link(ino: Ino, parent: Ino, name: &[u8]) -> Attr;
    Unlink "unlink" unlink(parent: Ino, name: &[u8]) -> ();
    Rmdir "rmdir" rmdir(parent: Ino, name: &[u8]) -> ();
    Rename "rename" rename(
        parent: Ino, name: &[u8], new_parent: Ino, new_name: &[u8], mode: RenameMode
    ) -> ();
    Read "read" read(
        ino: Ino, offset: u64, len: u32
    ) -> ReadPieces, |pieces: &ReadPieces| pieces.iter().map(|piece| piece.len() as u64).sum();
    Write "write" write(
        ino: Ino, offset: u64, data: &[u8], kill_suidgid: bool
    ) -> (), |()| data.len() as u64;
    Fsync "fsync" fsync(ino: Ino, datasync: bool) -> ();
    Sync "sync" sync() -> ();
    Fallocate "fallocate" fallocate(ino: Ino, offset: u64, len: u64, mode: Fallocate) -> ();
    Seek "seek" seek(ino: Ino, offset: u64, what: Seek) -> u64;
    Copy "copy" copy_range(
        from: Ino, from_offset: u64, to: Ino, to_offset: u64, len: u64
    ) -> u64, |copied: &u64| *copied;
    Readdir "readdir" readdir(
        ino: Ino, cookie: u64, attrs: bool, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool
    ) -> ();
    Statfs "statfs" statfs() -> StatFs;
    Setxattr "setxattr" setxattr(ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> ();
    Getxattr "getxattr" getxattr(ino: Ino, name: &[u8]) -> Vec<u8>;
    Listxattr "listxattr" listxattr(ino: Ino) -> Vec<Vec<u8>>;
    Removexattr "removexattr" removexattr(ino: Ino, name: &[u8]) -> ();
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
    fn a_look_at_the_free_space_is_no_use() {
        let meter = FilesMeter::default();
        for (op, requests) in [(Op::Statfs, 0), (Op::Read, 1), (Op::Statfs, 1)] {
            meter.count(op, |()| 0, || Ok(())).unwrap();
            assert_eq!(meter.requests(), requests);
        }
    }

    #[test]
    fn only_unexpected_answers_are_io_errors() {
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
