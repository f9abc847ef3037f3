//! Segments: their table, their bitmaps, and the choice of one to allocate from.

pub(crate) mod bitmap;
pub(crate) mod group_use;
pub(crate) mod picker;
pub(crate) mod table;
