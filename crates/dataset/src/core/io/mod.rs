//! File contents: records in memory, on their way to the pool and back.

pub(crate) mod ahead;
pub(crate) mod blocks;
pub(crate) mod cache;
pub(crate) mod copy;
pub(crate) mod extents;
pub(crate) mod frozen;
pub(crate) mod inode;
pub(crate) mod read;
mod record_slots;
pub(crate) mod share;
pub(crate) mod stored;
pub(crate) mod sync;
pub(crate) mod truncate;
pub(crate) mod workers;
pub(crate) mod write;
