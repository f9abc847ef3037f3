//! Answering `SEEK_DATA` when the kernel has data that the file system has not seen.
//!
//! Pages that were written through a mapping, or gathered by the write-back cache, are in the
//! kernel only; yet it asks where data is without writing them back first (seen on 6.18). A program
//! that copies such a file would take fresh data for a hole, and its copy would have zeros. So
//! before an answer skips anything, the kernel is made to write back what it skips. Nothing else
//! needs this: a hole that turns out not to be one is found out when data is looked for there.
//!
//! Writing back means requests to this very mount, for which the kernel has this one wait. That
//! must not use up the workers, so a thread of its own does it.

use std::any::Any;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender};

use vfs::{Error, FileSystem, Seek};
use zerocopy::IntoBytes;

use crate::abi;
use crate::reply::{Replier, notify_inval_inode};
use crate::serve::Errno;

/// A `SEEK_DATA` to be answered after writing back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) unique: u64,
    pub(crate) ino: u64,
    pub(crate) offset: u64,
    /// Where the data begins, if there is any, unless something before it is written back.
    pub(crate) found: Option<u64>,
}

/// How to reach the thread.
pub(crate) struct Searcher(Sender<Option<Search>>);

impl Searcher {
    /// A searcher, and what its thread runs with.
    pub(crate) fn new() -> (Searcher, Receiver<Option<Search>>) {
        let (send, receive) = std::sync::mpsc::channel();
        (Searcher(send), receive)
    }

    /// Has the thread answer.
    pub(crate) fn search(&self, search: Search) {
        // It is there as long as requests come.
        let _ = self.0.send(Some(search));
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let _ = self.0.send(None);
    }
}

/// What the thread does until the end.
pub(crate) fn run(device: impl AsFd, fs: &dyn FileSystem, searches: &Receiver<Option<Search>>) {
    while let Ok(Some(search)) = searches.recv() {
        let device = device.as_fd();
        let end = search.found.unwrap_or(END);
        notify_inval_inode(device, search.ino, search.offset, end - search.offset);
        let seek = || fs.seek(search.ino, search.offset, Seek::Data);
        let found = catch_unwind(AssertUnwindSafe(seek));
        let replier = Replier::new(device, search.unique);
        match found.map_err(|_: Box<dyn Any + Send>| Errno::IO) {
            Ok(Ok(offset)) => replier.bytes(abi::LseekOut { offset }.as_bytes()),
            Ok(Err(error)) => replier.error(error.errno()),
            Err(errno) => replier.error(errno.0),
        }
    }
}

/// Where the largest file ends.
const END: u64 = i64::MAX.cast_unsigned();

/// Whether an answer skips something, and what is to be searched for then.
pub(crate) fn skips(offset: u64, found: &Result<u64, Error>) -> Option<Option<u64>> {
    match *found {
        // Programs may ask for an offset below zero, and the kernel passes it on.
        _ if offset > END => None,
        Ok(found) if found > offset => Some(Some(found)),
        Err(Error::NoSuchAddress) => Some(None),
        _ => None,
    }
}
