//! Freed space: the deadlists of snapshots, and jobs that free space over several commits.

pub(crate) mod async_free;
pub(crate) mod dead_sums;
pub(crate) mod deadlist;
pub(crate) mod free_waits;
