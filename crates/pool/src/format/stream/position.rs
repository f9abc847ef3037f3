//! A position in a stream.

use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::SLOT_LIMIT;

/// A place in the order in which a stream goes through a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamPosition {
    /// 0 pages, 1 data.
    pub(super) array: u8,
    pub(super) slot: u64,
}

impl StreamPosition {
    /// The beginning of a stream.
    pub const START: StreamPosition = StreamPosition { array: 0, slot: 0 };

    pub(crate) fn new(array: ArrayKind, slot: u64) -> StreamPosition {
        let array = array as u8;
        StreamPosition { array, slot }
    }

    /// From its numbers, if they can be.
    pub(crate) fn checked(array: u8, slot: u64) -> Option<StreamPosition> {
        let fits = array < 2 && slot <= SLOT_LIMIT;
        fits.then_some(StreamPosition { array, slot })
    }

    /// The first slot of an array that it leaves to do.
    pub(crate) fn slot_in(&self, array: ArrayKind) -> Option<u64> {
        match (array as u8).cmp(&self.array) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(self.slot),
            std::cmp::Ordering::Greater => Some(0),
        }
    }
}
