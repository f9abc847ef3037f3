//! The queue of records that were read with errors and wait for repair.
//!
//! A reader does not repair, because the place may be freed and reused meanwhile. The pool worker finds the dataset
//! that has the record now ([`crate::Scrubber::heal`]).

use parking_lot::Mutex;

use crate::format::records::pointer::RecordPtr;

/// The largest length of the queue. A scrub repairs the others.
const LENGTH_MAX: usize = 1024;

/// A record or node of which a copy is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadCopy {
    /// A slot that it covers. `None` for one of the pool's own records.
    pub(crate) slot: Option<u64>,
    pub(crate) ptr: RecordPtr,
}

/// The bad copies that wait.
#[derive(Default)]
pub(crate) struct RepairQueue(Mutex<Vec<BadCopy>>);

impl RepairQueue {
    pub(crate) fn add(&self, slot: Option<u64>, ptr: &RecordPtr) {
        let bad = BadCopy { slot, ptr: *ptr };
        let mut queue = self.0.lock();
        if queue.len() < LENGTH_MAX && !queue.contains(&bad) {
            queue.push(bad);
        }
    }

    pub(crate) fn take(&self) -> Vec<BadCopy> {
        std::mem::take(&mut *self.0.lock())
    }
}
