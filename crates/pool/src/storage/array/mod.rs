//! Arrays: sparse rows of records, versioned by copy-on-write.
//!
//! An array is a radix tree of nodes over slot numbers. A pointer to its root is the whole array as
//! it was when that root was written; an array without records is the empty pointer. The level of
//! the root says how many slots it covers.
//!
//! What the open transaction group changes is kept beside the tree ([`overlay`]) and worked into new
//! nodes when the group is committed ([`update`]); [`walk`] reads, [`mod@diff`] compares.

pub(crate) mod diff;
pub(crate) mod overlay;
pub(crate) mod since;
pub(crate) mod update;
pub(crate) mod walk;

pub(crate) use overlay::{Edits, Overlay};
