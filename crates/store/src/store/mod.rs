//! The operations of a store: on segments, on the blocks of headers, and on its devices.

pub(crate) mod cache;
pub(crate) mod claims;
pub(crate) mod clear;
pub(crate) mod devices;
pub(crate) mod extend;
pub(crate) mod header_blocks;
pub(crate) mod headers;
pub(crate) mod heartbeat;
pub(crate) mod members;
pub(crate) mod relabel;
pub(crate) mod segments;
