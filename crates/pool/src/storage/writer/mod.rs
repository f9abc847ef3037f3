//! Writing: places for records, and many small writes put together.

pub(crate) mod batch;
pub(crate) mod reserve;
pub(crate) mod txg;
