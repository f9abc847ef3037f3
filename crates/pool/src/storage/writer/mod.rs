//! Writes records: allocates places for them, and combines small writes.

pub(crate) mod batch;
pub(crate) mod reserve;
pub(crate) mod txg;
