//! Space: which units of which segments are used, and when freed units can be used again.
//!
//! Each segment has two states. *Taken* is the state that the allocator uses: a unit is taken from its allocation until
//! the commit that frees it is durable. *On disk* is the state in the bitmaps of the last commit: the units that its
//! tree points to. A commit applies the allocations and frees of its transaction group to the bitmaps on disk. The
//! freed units are allocated again only when the commit is durable. So no live unit is overwritten.
//!
//! The bitmaps and the segment table are in *system segments* of their own. Their units are in no bitmap; an import
//! finds them by a walk of the two arrays. So writing a bitmap never changes a bitmap.

mod allocator;
mod counts;
mod discard;
mod grow;
mod leave;
mod logs;
mod reserve;
mod segments;
mod states;
mod sweep;
mod system;
mod totals;
mod turn;

pub(crate) use allocator::Space;
pub(crate) use discard::UNITS_MIN;
pub use reserve::{ReserveFor, SpaceReservation};
pub(crate) use segments::bitmap::Bitmap;
pub(crate) use segments::table::{ENTRIES_PER_PAGE, Numbering, SegmentEntry};
pub(crate) use turn::FreeTurn;
pub use turn::FreeingTurn;
