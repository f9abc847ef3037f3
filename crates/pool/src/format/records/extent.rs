//! Runs of units, and their purposes.

use store::{SegmentId, UNIT};

use crate::format::records::pointer::{Addr, Place};

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
/// they take more than that: a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) segment: SegmentId,
    pub(crate) start: u32,
    pub(crate) units: u32,
}

/// A run of units of a segment, as the bitmaps count them: parity is part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) segment: SegmentId,
    pub(crate) start: u32,
    pub(crate) units: u32,
}

impl Extent {
    pub(crate) fn addr(&self) -> Addr {
        Addr::new(self.segment, self.start * UNIT, self.units * UNIT)
    }

    /// The units of an address.
    pub(crate) fn of(addr: &Addr) -> Extent {
        Extent {
            segment: addr.segment(),
            start: addr.offset() / UNIT,
            units: addr.size() / UNIT,
        }
    }

    /// The units of every copy of a record or node that does not lie in pieces.
    pub(crate) fn of_whole(place: &Place) -> impl Iterator<Item = Extent> {
        place.copies().map(|addr| Extent::of(&addr))
    }
}
