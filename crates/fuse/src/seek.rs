//! Answering `SEEK_DATA` when the kernel has data that the file system has not seen.
//!
//! Pages that were written through a mapping, or gathered by the write-back cache, are in the
//! kernel only; yet it asks where data is without writing them back first (seen on 6.18). A program
//! that copies such a file would take fresh data for a hole, and its copy would have zeros. So
//! before an answer skips anything, the kernel is made to write back what it skips. Nothing else
//! needs this: a hole that turns out not to be one is found out when data is looked for there.
//!
//! Writing back means requests to this very mount, for which the kernel has this one wait. That
//! must not use up the workers, so a thread of its own does it. It is started for the first search, and ends
//! when there has been none for a while.

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use vfs::{Error, FileSystem, Seek};
use zerocopy::IntoBytes;

use crate::abi;
use crate::errno::Errno;
use crate::reply::{Replier, notify_inval_inode};

/// A `SEEK_DATA` to be answered after writing back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) unique: u64,
    pub(crate) ino: u64,
    pub(crate) offset: u64,
    /// Where the data begins, if there is any, unless something before it is written back.
    pub(crate) found: Option<u64>,
}

/// For so long the thread waits for another search.
const LINGER: Duration = Duration::from_secs(1);

/// What is to be searched for, and by whom.
#[derive(Default)]
pub(crate) struct Searcher {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Default)]
struct State {
    searches: VecDeque<Search>,
    /// Whether there is a thread, or one is about to be started.
    has_thread: bool,
    stop: bool,
}

impl Searcher {
    /// Has the thread answer. True if there is none: then the caller starts one.
    pub(crate) fn search(&self, search: Search) -> bool {
        let mut state = self.state.lock();
        state.searches.push_back(search);
        self.asked.notify_one();
        !std::mem::replace(&mut state.has_thread, true)
    }

    /// No thread could be started: waiting callers get an error.
    pub(crate) fn give_up(&self, device: impl AsFd) {
        let mut state = self.state.lock();
        state.has_thread = false;
        for search in state.searches.drain(..) {
            Replier::new(device.as_fd(), search.unique).error(Error::NoMemory.errno());
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.asked.notify_all();
    }

    /// What the thread does until it is not needed any more.
    pub(crate) fn run(&self, device: impl AsFd, fs: &dyn FileSystem) {
        while let Some(search) = self.next() {
            answer(device.as_fd(), fs, search);
        }
    }

    fn next(&self) -> Option<Search> {
        let mut state = self.state.lock();
        if state.searches.is_empty() && !state.stop {
            self.asked.wait_for(&mut state, LINGER);
        }
        let search = state.searches.pop_front();
        state.has_thread = search.is_some();
        search
    }
}

fn answer(device: BorrowedFd<'_>, fs: &dyn FileSystem, search: Search) {
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
