//! The work of requests: a folder for each part of the daemon, with a file for each kind of request.

pub(crate) mod datasets;
pub(crate) mod devices;
pub(crate) mod exports;
pub(crate) mod front_end_calls;
pub(crate) mod ha;
pub(crate) mod imports;
pub(crate) mod keys;
pub(crate) mod mappings;
pub(crate) mod mounts;
pub(crate) mod pools;
pub(crate) mod replication;
pub(crate) mod snapshots;
pub(crate) mod streams;
pub(crate) mod users;
