//! Files whose contents the kernel does not keep, and the pages of them that it has all the same.
//!
//! Reads and writes of such a file pass the kernel's cache by. A mapping cannot, nor can `sendfile`: the kernel reads
//! whole pages for them, and writes back whole pages after stores. So a page can be older than a write beside it:
//!
//! ```text
//!  program: write() ----------------> write: new bytes in the file
//!  mapping:    page is read (old bytes) -> store to other bytes -> page is written back, with the old bytes
//! ```
//!
//! The kernel tells these requests apart: it names the owner of locks in a read and in a write of a program, and marks
//! what it writes back. Two rules keep every write:
//! - What is written back leaves out the bytes that a write has changed since the kernel has read the page.
//! - A write beside pages is answered after the kernel has dropped the pages of its bytes. So a store after the write goes
//!   to a page that has the bytes of the write.
//!
//! The kernel drops all pages of a file after its last close.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use vfs::Ino;

/// Writes, or parts of them, that are remembered for a file. More are under way only if the kernel wrote pages back
/// that late. Kernels older than 6.16 drop a page before the write-back of it is answered.
const WRITES_MAX: usize = 1024;

/// The files that programs have open.
#[derive(Default)]
pub(crate) struct DirectFiles(Mutex<HashMap<Ino, Arc<DirectFile>>>);

#[derive(Default)]
struct DirectFile {
    /// Held by everything that changes the contents.
    changing: Mutex<()>,
    pages: Mutex<CachedPages>,
}

/// The pages of a file that the kernel has.
#[derive(Default)]
struct CachedPages {
    opens: u64,
    /// Some page was read.
    any: bool,
    /// Writes that were carried out.
    done: u64,
    /// Writes whose bytes pages may lack, in order. The last one may be under way.
    newer: VecDeque<Newer>,
}

/// Bytes of a file that pages may lack.
struct Newer {
    bytes: Range<u64>,
    /// The number of the write. Its own place in the row of those carried out, or the next one while it is under way.
    number: u64,
}

impl DirectFiles {
    /// A program opens a file.
    pub(crate) fn opened(&self, ino: Ino) {
        let mut files = self.0.lock();
        files.entry(ino).or_default().pages.lock().opens += 1;
    }

    /// A program has closed a file for good. Returns whether it was the last one, and the kernel has pages.
    pub(crate) fn released(&self, ino: Ino) -> bool {
        let mut files = self.0.lock();
        let Some(file) = files.get(&ino) else {
            return false;
        };
        let mut pages = file.pages.lock();
        pages.opens = pages.opens.saturating_sub(1);
        let (is_last, any) = (pages.opens == 0, pages.any);
        drop(pages);
        if is_last {
            files.remove(&ino);
        }
        is_last && any
    }

    fn file(&self, ino: Ino) -> Arc<DirectFile> {
        let files = self.0.lock();
        files.get(&ino).cloned().unwrap_or_default()
    }

    /// Reads bytes for pages of the kernel.
    pub(crate) fn fill<T>(&self, ino: Ino, bytes: Range<u64>, read: impl FnOnce() -> T) -> T {
        let file = self.file(ino);
        let seen = {
            let mut pages = file.pages.lock();
            pages.any = true;
            pages.done
        };
        let filled = read();
        file.pages.lock().have(&bytes, seen);
        filled
    }

    /// Writes what a program has written. Returns whether the kernel has pages, which may lack these bytes.
    pub(crate) fn write<E>(
        &self,
        ino: Ino,
        bytes: Range<u64>,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        let file = self.file(ino);
        let _changing = file.changing.lock();
        file.pages.lock().begin(bytes);
        let written = write();
        let any = file.pages.lock().end(written.is_ok());
        written.map(|()| any)
    }

    /// Writes what the kernel writes back: the parts of `bytes` that no write has changed since they were read.
    pub(crate) fn write_back<E>(
        &self,
        ino: Ino,
        bytes: Range<u64>,
        mut write: impl FnMut(Range<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let file = self.file(ino);
        let _changing = file.changing.lock();
        let parts = file.pages.lock().current(bytes);
        parts.into_iter().try_for_each(&mut write)
    }
}

impl CachedPages {
    /// Pages were read with `bytes`, after `seen` writes.
    fn have(&mut self, bytes: &Range<u64>, seen: u64) {
        let newer = std::mem::take(&mut self.newer);
        self.newer = newer
            .into_iter()
            .flat_map(|write| match write.number <= seen {
                true => without(write.bytes, bytes)
                    .into_iter()
                    .map(|bytes| Newer {
                        bytes,
                        number: write.number,
                    })
                    .collect(),
                false => vec![write],
            })
            .collect();
        self.forget_oldest();
    }

    /// Reads of single pages can split each write into many parts.
    fn forget_oldest(&mut self) {
        let excess = self.newer.len().saturating_sub(WRITES_MAX);
        self.newer.drain(..excess);
    }

    fn begin(&mut self, bytes: Range<u64>) {
        let number = self.done + 1;
        self.newer.push_back(Newer { bytes, number });
        self.forget_oldest();
    }

    /// The last write is in the file, or has failed. Returns whether there are pages.
    fn end(&mut self, is_done: bool) -> bool {
        self.done += 1;
        if !self.any {
            self.newer.clear();
        } else if !is_done {
            self.newer.pop_back();
        }
        self.any
    }

    /// The parts of `bytes` that pages have as new as the file.
    fn current(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let cut = |parts: Vec<Range<u64>>, write: &Newer| {
            let parts = parts.into_iter();
            parts.flat_map(|part| without(part, &write.bytes)).collect()
        };
        self.newer.iter().fold(vec![bytes], cut)
    }
}

/// The parts of a range that are not in another one.
fn without(range: Range<u64>, other: &Range<u64>) -> Vec<Range<u64>> {
    let before = range.start..range.end.min(other.start);
    let after = range.start.max(other.end)..range.end;
    [before, after]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = 5;

    fn write(files: &DirectFiles, bytes: Range<u64>) -> bool {
        files.write(FILE, bytes, || Ok::<_, ()>(())).unwrap()
    }

    /// The begin and end of each part.
    fn written_back(files: &DirectFiles, bytes: Range<u64>) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let put = |part: Range<u64>| {
            parts.push((part.start, part.end));
            Ok::<_, ()>(())
        };
        files.write_back(FILE, bytes, put).unwrap();
        parts
    }

    #[test]
    fn a_range_without_another() {
        for (range, other, rest) in [
            (0..10, 3..5, vec![(0, 3), (5, 10)]),
            (0..10, 0..5, vec![(5, 10)]),
            (0..10, 5..20, vec![(0, 5)]),
            (3..5, 0..10, vec![]),
            (0..10, 20..30, vec![(0, 10)]),
            (20..30, 0..10, vec![(20, 30)]),
            (0..10, 10..20, vec![(0, 10)]),
        ] {
            let parts = without(range.clone(), &other).into_iter();
            let parts: Vec<(u64, u64)> = parts.map(|part| (part.start, part.end)).collect();
            assert_eq!(parts, rest, "{range:?} {other:?}");
        }
    }

    /// Pages that were read before a write, in it, and after it.
    #[test]
    fn what_is_written_back_leaves_out_newer_bytes() {
        let files = DirectFiles::default();
        files.opened(FILE);
        assert!(!write(&files, 0..100), "the kernel has no page");
        files.fill(FILE, 0..8192, || ());
        assert_eq!(written_back(&files, 0..8192), [(0, 8192)]);
        assert!(write(&files, 100..200));
        assert_eq!(written_back(&files, 0..4096), [(0, 100), (200, 4096)]);
        files.fill(FILE, 4096..8192, || ());
        assert_eq!(written_back(&files, 0..4096), [(0, 100), (200, 4096)]);
        files.fill(FILE, 0..4096, || ());
        assert_eq!(written_back(&files, 0..4096), [(0, 4096)]);
        let writing = || {
            files.fill(FILE, 0..4096, || ());
            Ok::<_, ()>(())
        };
        assert_eq!(files.write(FILE, 0..10, writing), Ok(true));
        assert_eq!(
            written_back(&files, 0..4096),
            [(10, 4096)],
            "it may have been too early"
        );
    }

    /// A program that reads every other page of what it has written, by a mapping.
    #[test]
    fn the_parts_of_writes_are_bounded() {
        let files = DirectFiles::default();
        files.opened(FILE);
        files.fill(FILE, 0..4096, || ());
        for n in 0..8 {
            write(&files, n << 20..(n + 1) << 20);
        }
        for page in 0..1024 {
            let at = page * 8192;
            files.fill(FILE, at..at + 4096, || ());
        }
        let file = files.file(FILE);
        assert_eq!(file.pages.lock().newer.len(), WRITES_MAX);
    }

    /// The first page comes while a write is under way.
    #[test]
    fn the_first_page_in_a_write_counts() {
        let files = DirectFiles::default();
        files.opened(FILE);
        let writing = || {
            files.fill(FILE, 0..4096, || ());
            Ok::<_, ()>(())
        };
        assert_eq!(files.write(FILE, 0..10, writing), Ok(true));
        assert_eq!(written_back(&files, 0..4096), [(10, 4096)]);
        assert!(written_back(&files, 2..8).is_empty());
    }

    #[test]
    fn pages_go_with_the_last_close() {
        let files = DirectFiles::default();
        files.opened(FILE);
        files.opened(FILE);
        files.fill(FILE, 0..4096, || ());
        assert!(!files.released(FILE));
        assert!(files.released(FILE));
        files.opened(FILE);
        assert!(!files.released(FILE), "nothing was read");
        assert!(!files.released(FILE));
        assert!(files.0.lock().is_empty());
    }

    #[test]
    fn few_writes_are_remembered() {
        let files = DirectFiles::default();
        files.opened(FILE);
        files.fill(FILE, 0..4096, || ());
        for at in 0..3 * WRITES_MAX as u64 {
            write(&files, 2 * at..2 * at + 1);
        }
        let file = files.file(FILE);
        assert_eq!(file.pages.lock().newer.len(), WRITES_MAX);
    }
}
