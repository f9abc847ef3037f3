//! The engine makes changes durable: transaction groups, commits, and the parts of the pool that commits write.

pub(crate) mod checkpoint;
pub(crate) mod closing_group;
pub(crate) mod commit;
pub(crate) mod context;
pub(crate) mod datasets;
pub(crate) mod dedup;
pub(crate) mod devices;
pub(crate) mod follow;
pub(crate) mod frees;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod retention;
pub(crate) mod state_lock;
pub(crate) mod suspension;
pub(crate) mod sweep;
