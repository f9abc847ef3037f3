//! Records and nodes: their pointers, extents and arrays.

pub(crate) mod array_kind;
pub(crate) mod extent;
pub(crate) mod node;
pub(crate) mod pointer;
