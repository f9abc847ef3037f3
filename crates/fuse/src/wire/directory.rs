//! A page of a directory in the kernel's format.

use vfs::{Attr, DirEntry};
use zerocopy::IntoBytes;

use crate::wire::abi;

/// The answer to the lookup of a name.
type Lookup<'a> = &'a dyn Fn(&[u8], &Attr) -> abi::EntryOut;

/// Fills a buffer with entries until the next one would not fit.
pub(crate) struct DirectoryPage<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    limit: usize,
    /// `READDIRPLUS`: each entry is a lookup at the same time, answered with this.
    plus: Option<Lookup<'a>>,
}

impl<'a> DirectoryPage<'a> {
    /// A page of up to `limit` bytes at the end of `out`.
    pub(crate) fn new(
        out: &'a mut Vec<u8>,
        limit: usize,
        plus: Option<Lookup<'a>>,
    ) -> DirectoryPage<'a> {
        let start = out.len();
        DirectoryPage {
            out,
            start,
            limit,
            plus,
        }
    }

    /// Returns whether no entry was accepted.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.len() == self.start
    }

    /// Takes an entry; false: it did not fit, and was not taken.
    pub(crate) fn push(&mut self, entry: &DirEntry<'_>) -> bool {
        let lookup = self.plus.map_or(0, |_| size_of::<abi::EntryOut>());
        let len = (lookup + size_of::<abi::Dirent>() + entry.name.len()).next_multiple_of(8);
        let end = self.out.len() + len;
        if end - self.start > self.limit {
            return false;
        }
        if let Some(answer) = self.plus {
            // The kernel takes no lookup from `.` and `..`.
            let attr = entry
                .attr
                .filter(|_| entry.name != b"." && entry.name != b"..");
            let lookup = attr
                .map(|attr| answer(entry.name, &attr))
                .unwrap_or_default();
            self.out.extend_from_slice(lookup.as_bytes());
        }
        let head = abi::Dirent {
            ino: entry.ino,
            off: entry.cookie,
            // It fitted into the page.
            namelen: entry.name.len() as u32,
            kind: u32::from(entry.kind.bits()),
        };
        self.out.extend_from_slice(head.as_bytes());
        self.out.extend_from_slice(entry.name);
        self.out.resize(end, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::convert::{self, Valid};
    use vfs::{Kind, Time};

    fn entry<'a>(name: &'a [u8], attr: Option<Attr>) -> DirEntry<'a> {
        DirEntry {
            ino: 7,
            kind: Kind::File,
            name,
            cookie: 3,
            attr,
        }
    }

    fn some_attr() -> Attr {
        Attr {
            ino: 7,
            kind: Kind::File,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 5,
            blocks: 1,
            is_passing: false,
            blksize: 4096,
            atime: Time::default(),
            mtime: Time::default(),
            ctime: Time::default(),
            btime: Time::default(),
        }
    }

    #[test]
    fn entries_are_padded_and_what_does_not_fit_is_refused() {
        let mut out = vec![0xee; 16];
        let mut page = DirectoryPage::new(&mut out, 64, None);
        assert!(page.is_empty());
        assert!(page.push(&entry(b"abc", None)));
        assert!(page.push(&entry(b"12345678", None)));
        assert!(!page.push(&entry(b"x", None)));
        assert_eq!(out.len(), 16 + 64);
        assert_eq!(&out[16 + 24..16 + 32], b"abc\0\0\0\0\0");
        assert_eq!(&out[16 + 32 + 24..], b"12345678");
    }

    #[test]
    fn dots_are_no_lookups() {
        let mut out = Vec::new();
        let answer = |_: &[u8], attr: &Attr| convert::entry(attr, Valid::LONG, Valid::LONG);
        let mut page = DirectoryPage::new(&mut out, 4096, Some(&answer));
        assert!(page.push(&entry(b"..", Some(some_attr()))));
        assert!(page.push(&entry(b"file", Some(some_attr()))));
        let nodeid = |at: usize| u64::from_ne_bytes(out[at..at + 8].try_into().unwrap());
        assert_eq!(nodeid(0), 0);
        assert_eq!(nodeid(128 + 32), 7);
    }
}
