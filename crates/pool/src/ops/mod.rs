//! The operations on a pool: each file adds one kind to [`Pool`](crate::Pool).

pub(crate) mod check;
pub(crate) mod datasets;
pub(crate) mod devices;
pub(crate) mod info;
pub(crate) mod lifecycle;
pub(crate) mod pool;
pub(crate) mod scrub;
pub(crate) mod snapshots;
pub(crate) mod streams;
