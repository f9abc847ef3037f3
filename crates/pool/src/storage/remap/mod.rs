//! Remapping: reads records whose group of devices was removed.
//!
//! A pointer contains the place of its record. Nodes above hash the pointer, seals cover it, and deadlists list it. So
//! the pointers must stay the same when a group is removed. The data of the group is copied to other groups, and the
//! *remap table* has the new place of each run of units. During the copying, all readers use the old places, and these
//! stay allocated. So the removal can be stopped at any time. When every allocated unit of the group has a copy, one
//! commit makes the table valid and removes the group.
//!
//! An entry is removed when its old place is freed. Its new place is freed at the same time. With its last entry,
//! the removed group is forgotten.

mod edit;
mod page;
mod table;

#[cfg(fuzzing)]
pub(crate) use page::RemapPage;
pub(crate) use table::{Remap, TableReader};
