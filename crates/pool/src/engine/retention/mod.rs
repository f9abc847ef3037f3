//! Retention: snapshots that nothing may destroy before a time, and the clock that decides when that is.

pub(crate) mod commit_check;
pub(crate) mod device_retention;
pub(crate) mod length;
pub(crate) mod pool_clock;
