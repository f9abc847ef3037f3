//! Space: which units of which segments are taken, by whom, and since when they are free.
//!
//! Two states of every segment are kept apart. *Taken* is what the allocator goes by: a unit is
//! taken from the moment it is handed out until the commit that no longer needs it is durable.
//! *On disk* is what the bitmaps of the last commit say: the units that its tree points to. A commit
//! works the allocations and frees of its transaction group into the bitmaps on disk; only when it
//! is durable are the freed units handed out again, so that nothing live is ever overwritten.
//!
//! The bitmaps and the segment table lie in *system segments* of their own, whose units are not in
//! any bitmap: at import they are found by walking the two arrays. So writing a bitmap never changes
//! a bitmap.

mod allocator;
mod bitmap;
mod discard;
mod grow;
mod leave;
mod logs;
mod picker;
mod reserve;
mod table;
mod totals;
mod turn;

pub(crate) use allocator::Space;
pub(crate) use bitmap::Bitmap;
pub use reserve::{Reservation, ReserveFor};
pub(crate) use table::{ENTRIES_PER_PAGE, Numbering, SegmentEntry};
pub(crate) use turn::Turn;
pub use turn::TurnToFree;

use store::{SegmentId, UNIT};

use crate::layout::{Addr, Place};

/// What a segment is used for. Records of a kind lie together.
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
