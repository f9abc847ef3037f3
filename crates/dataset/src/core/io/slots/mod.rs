//! Slots of `data`: the extents of a file, slots that files share, and the blocks that they take.

pub(crate) mod block_counts;
pub(crate) mod extents;
pub(crate) mod record_slots;
pub(crate) mod share;
