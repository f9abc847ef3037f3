//! Devices in memory, and devices around others: for tests, and to count operations.

pub mod fault;
pub mod gate;
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod shared_disk;
