//! Arrays: sparse rows of records, versioned by copy-on-write.
//!
//! An array is a radix tree of nodes over slot numbers. A pointer to a root names a whole array, in the state of the
//! commit that wrote the root. The empty pointer is an array without records. The level of the root determines how many
//! slots the array covers.
//!
//! Changes of the open transaction group are kept beside the tree ([`overlay`]). The commit writes them into new
//! nodes ([`update`]). [`walk`] reads arrays, [`mod@diff`] compares them, [`record_space`] adds up the space of records.

pub(crate) mod diff;
pub(crate) mod overlay;
pub(crate) mod record_space;
pub(crate) mod since;
pub(crate) mod update;
pub(crate) mod walk;

pub(crate) use overlay::{Edits, Overlay};
