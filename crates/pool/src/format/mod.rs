//! The stored formats of a pool, and their types. Nothing here reads a device.

pub(crate) mod codec;
pub(crate) mod datasets;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod records;
pub(crate) mod stream;
pub(crate) mod superblock;
