//! Runs of units, and their purposes.

use store::{SegmentId, UNIT};

use crate::format::records::pointer::{Addr, RecordLocation};

/// The use of a segment. A segment has records of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// File contents.
    Data = 1,
    /// Nodes, metadata pages, the pool's own records.
    Meta = 2,
    /// Bitmaps and the segment table.
    System = 3,
}

/// Units of something, one behind the other, and where in a segment they begin. In a group with parity
/// they take more than that: a [`UnitSpan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredExtent {
    pub(crate) segment: SegmentId,
    pub(crate) start: u32,
    pub(crate) units: u32,
}

/// A run of units of a segment, as the bitmaps count them: parity is part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitSpan {
    pub(crate) segment: SegmentId,
    pub(crate) start: u32,
    pub(crate) units: u32,
}

impl StoredExtent {
    pub(crate) fn addr(&self) -> Addr {
        Addr::new(self.segment, self.start * UNIT, self.units * UNIT)
    }

    /// The units of an address.
    pub(crate) fn of(addr: &Addr) -> StoredExtent {
        StoredExtent {
            segment: addr.segment(),
            start: addr.offset() / UNIT,
            units: addr.size() / UNIT,
        }
    }

    /// The units of every copy of a record or node that does not lie in pieces.
    pub(crate) fn of_whole(place: &RecordLocation) -> impl Iterator<Item = StoredExtent> {
        place.copies().map(|addr| StoredExtent::of(&addr))
    }
}
