//! Devices that fail, join, leave and grow, and the guid on them.

pub mod caches;
pub mod growth;
pub mod guids;
pub mod members;
