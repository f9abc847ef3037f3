//! The position of a re-encryption, and its records for the next commit.

use parking_lot::Mutex;
use pool::{ArrayKind, PlacedRecord, RecordPtr, SpaceReservation};

/// The progress of the re-encryption of a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReencryptionReport {
    /// The bytes on disk that were examined.
    pub seen: u64,
    /// The number of records that could not be opened. They stay as they are.
    pub damaged: u64,
    /// True if all records that can be opened are sealed with the newest keys.
    pub is_done: bool,
    /// True if it waits for free space. It continues with the first step that finds some.
    pub waits: bool,
}

/// The position of a re-encryption, and the records that wait for the commit.
#[derive(Default)]
pub(crate) struct DatasetReencryption {
    pub(crate) walk: Mutex<ReencryptionWalk>,
    pub(crate) waiting: Mutex<Vec<Rewritten>>,
}

#[derive(Default)]
pub(crate) struct ReencryptionWalk {
    pub(crate) array: usize,
    pub(crate) slot: u64,
    /// The number of records that this pass has sealed again. A pass that finds none is the last one.
    pub(crate) found: u64,
    pub(crate) progress: ReencryptionReport,
}

/// A record that is sealed again, but in no array yet.
pub(crate) struct Rewritten {
    pub(crate) array: ArrayKind,
    pub(crate) slot: u64,
    pub(crate) was: RecordPtr,
    pub(crate) placed: PlacedRecord,
    pub(crate) _reserved: SpaceReservation,
}
