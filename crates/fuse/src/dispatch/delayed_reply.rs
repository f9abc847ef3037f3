//! Requests that are answered later, after the kernel has written back pages that the file system has not seen.
//!
//! Pages that were written through a mapping, or gathered by the write-back cache, are in the kernel only. The kernel
//! asks where data is without writing them back first (seen on 6.18). A program that copies such a file would take
//! fresh data for a hole, and its copy would have zeros. So before an answer skips a part of a file, the kernel has
//! to write that part back. If the part was no hole, the next search for data finds it.
//!
//! A write beside a mapping of a file that the kernel does not keep (`direct`) is answered when the pages of its
//! bytes are dropped. Stores to them are written back first.
//!
//! A file that becomes immutable or append-only refuses pages that were written through a mapping before. So it gets these
//! first.
//!
//! Writing back means requests to this very mount, for which the kernel has this one wait. That
//! must not use up the workers, so a thread of its own does it. It is started for the first of them, and ends
//! when there has been none for a while.

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use vfs::{Error, FileFlags, FileSystem, Seek};
use zerocopy::IntoBytes;

use crate::wire::abi;
use crate::wire::errno::Errno;
use crate::wire::reply::{Replier, notify_attributes, notify_inval_inode};

/// A request to be answered after the kernel has written back or dropped pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Later {
    pub(crate) unique: u64,
    pub(crate) ino: u64,
    pub(crate) what: DelayedOperation,
}

/// The operation that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DelayedOperation {
    /// `SEEK_DATA`
    Data {
        offset: u64,
        /// The beginning of the data, if there is any. Something before it may still be written back.
        found: Option<u64>,
    },
    /// To mark a file.
    Flags(FileFlags),
    /// A write of a program, which is in the file. Pages of the kernel may lack it.
    Write {
        offset: u64,
        len: u32,
        /// The sync failed after all: the write is not durable, as the program wants it.
        failed: Option<Error>,
    },
    /// A file is closed: the kernel drops its pages. This is answered already.
    Closed,
}

/// For so long the thread waits for another request.
const LINGER: Duration = Duration::from_secs(1);

/// The delayed requests, and the thread that answers them.
#[derive(Default)]
pub(crate) struct LaterThread {
    state: Mutex<State>,
    asked: Condvar,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Later>,
    /// True if there is a thread, or one is about to be started.
    has_thread: bool,
    stop: bool,
    /// A request is being carried out.
    busy: bool,
    /// Requests are refused, and the kernel is asked for nothing more.
    closed: bool,
}

impl LaterThread {
    /// Has the thread answer. True if there is none: then the caller starts one.
    pub(crate) fn answer(&self, request: Later) -> bool {
        let mut state = self.state.lock();
        state.requests.push_back(request);
        self.asked.notify_one();
        !std::mem::replace(&mut state.has_thread, true)
    }

    /// No thread could be started: waiting callers get an error.
    pub(crate) fn give_up(&self, device: impl AsFd) {
        let mut state = self.state.lock();
        state.has_thread = false;
        for request in state.requests.drain(..) {
            if !matches!(request.what, DelayedOperation::Closed) {
                Replier::new(device.as_fd(), request.unique).error(Error::NoMemory.errno());
            }
        }
    }

    /// Refuses requests from now on, and waits until none is under way: the kernel may need workers for it. Not for ever,
    /// because a worker may hang.
    pub(crate) fn close(&self, patience: Duration) {
        let mut state = self.state.lock();
        state.closed = true;
        let is_busy = |state: &mut State| state.busy;
        self.idle.wait_while_for(&mut state, is_busy, patience);
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.asked.notify_all();
    }

    /// The loop of the thread, until it is not needed any more.
    pub(crate) fn run(&self, device: impl AsFd, fs: &dyn FileSystem) {
        while let Some((request, is_refused)) = self.next() {
            match (is_refused, request.what) {
                (false, _) => answer(device.as_fd(), fs, request),
                (true, DelayedOperation::Closed) => {}
                (true, _) => Replier::new(device.as_fd(), request.unique).error(Errno::IO.0),
            }
        }
    }

    /// The next request, and whether to refuse it.
    fn next(&self) -> Option<(Later, bool)> {
        let mut state = self.state.lock();
        state.busy = false;
        self.idle.notify_all();
        if state.requests.is_empty() && !state.stop {
            self.asked.wait_for(&mut state, LINGER);
        }
        let request = state.requests.pop_front();
        state.has_thread = request.is_some();
        state.busy = request.is_some();
        request.map(|request| (request, state.closed))
    }
}

fn answer(device: BorrowedFd<'_>, fs: &dyn FileSystem, request: Later) {
    let Later { unique, ino, what } = request;
    let carry_out = || match what {
        DelayedOperation::Data { offset, found } => {
            let end = found.unwrap_or(END);
            notify_inval_inode(device, ino, offset, end - offset);
            let offset = fs.seek(ino, offset, Seek::Data)?;
            Ok(abi::LseekOut { offset }.as_bytes().to_vec())
        }
        DelayedOperation::Flags(flags) => {
            notify_inval_inode(device, ino, 0, 0);
            fs.set_flags(ino, flags)?;
            // Its time of change is another one.
            notify_attributes(device, ino);
            Ok(abi::IoctlOut::default().as_bytes().to_vec())
        }
        DelayedOperation::Write {
            offset,
            len,
            failed,
        } => {
            notify_inval_inode(device, ino, offset, len.into());
            failed.map_or(Ok(()), Err)?;
            let written = abi::WriteOut {
                size: len,
                padding: 0,
            };
            Ok(written.as_bytes().to_vec())
        }
        DelayedOperation::Closed => {
            notify_inval_inode(device, ino, 0, 0);
            Ok(Vec::new())
        }
    };
    let done = catch_unwind(AssertUnwindSafe(carry_out));
    if matches!(what, DelayedOperation::Closed) {
        return;
    }
    let replier = Replier::new(device, unique);
    match done.map_err(|_: Box<dyn Any + Send>| Errno::IO) {
        Ok(Ok(body)) => replier.bytes(&body),
        Ok(Err(error)) => replier.error(Error::errno(error)),
        Err(errno) => replier.error(errno.0),
    }
}

/// The end of the largest possible file.
const END: u64 = i64::MAX.cast_unsigned();

/// Returns the operation to search for if an answer skips a part of the file.
pub(crate) fn skips(offset: u64, found: &Result<u64, Error>) -> Option<Option<u64>> {
    match *found {
        // Programs may ask for an offset below zero, and the kernel passes it on.
        _ if offset > END => None,
        Ok(found) if found > offset => Some(Some(found)),
        Err(Error::NoSuchAddress) => Some(None),
        _ => None,
    }
}
