//! Space: which units of which segments are used, and when freed units can be used again.
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
mod counts;
mod discard;
mod grow;
mod kept;
mod leave;
mod logs;
mod picker;
mod reserve;
mod sweep;
mod system;
mod table;
mod takes;
mod totals;
mod turn;

pub(crate) use allocator::Space;
pub(crate) use bitmap::Bitmap;
pub(crate) use discard::UNITS_MIN;
pub use reserve::{Reservation, ReserveFor};
pub(crate) use table::{ENTRIES_PER_PAGE, Numbering, SegmentEntry};
pub(crate) use turn::Turn;
pub use turn::TurnToFree;
