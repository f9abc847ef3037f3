//! The position of a re-encryption, and its records for the next commit.

use parking_lot::Mutex;
use pool::{ArrayKind, Placed, RecordPtr, Reservation};

/// How far a dataset is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reencrypted {
    /// Bytes on disk that were looked at.
    pub seen: u64,
    /// Records that could not be opened, which stay as they are.
    pub damaged: u64,
    /// Whether everything is sealed with the newest keys, as far as it can be.
    pub is_done: bool,
    /// Whether it waits for free space. It goes on with the first step that finds some.
    pub waits: bool,
}

/// Where a dataset is, and what waits for the commit.
#[derive(Default)]
pub(crate) struct Reencryption {
    pub(crate) walk: Mutex<Walk>,
    pub(crate) waiting: Mutex<Vec<Rewritten>>,
}

#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) array: usize,
    pub(crate) slot: u64,
    /// Records that this pass has sealed anew. One that finds none is the last.
    pub(crate) found: u64,
    pub(crate) progress: Reencrypted,
}

/// A record that is sealed anew and in no array yet.
pub(crate) struct Rewritten {
    pub(crate) array: ArrayKind,
    pub(crate) slot: u64,
    pub(crate) was: RecordPtr,
    pub(crate) placed: Placed,
    pub(crate) _reserved: Reservation,
}
