//! The state of the daemon: pools with their keys, volumes and mounts, exports, zones; and the caller of a command.

pub(crate) mod callers;
pub(crate) mod daemon;
pub(crate) mod datasets;
pub(crate) mod devices;
pub(crate) mod exports;
pub(crate) mod front_end;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod mounts;
pub(crate) mod pools;
pub(crate) mod replication;
pub(crate) mod zones;
