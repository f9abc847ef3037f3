//! The bytes on each device: labels, header blocks, segments, and the parity of a group.

pub(crate) mod frames;
pub(crate) mod geometry;
pub(crate) mod parity_code;
pub(crate) mod segment;
pub(crate) mod shape;

pub use frames::*;
