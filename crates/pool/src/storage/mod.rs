//! Records on the devices: reading, allocating and writing them.

pub(crate) mod array;
pub(crate) mod cache_device;
pub(crate) mod core;
pub(crate) mod gang;
pub(crate) mod in_flight;
pub(crate) mod nodes;
pub(crate) mod reader;
pub(crate) mod reconstruct;
pub(crate) mod remap;
pub(crate) mod repair_queue;
pub(crate) mod space;
pub(crate) mod writer;
