//! The life of a pool: import, export, division, checkpoints, and the import by several hosts.

pub(crate) mod checkpoint;
pub(crate) mod import;
pub(crate) mod multihost;
pub(crate) mod pool_division;
pub(crate) mod resume;
pub(crate) mod rewind;
