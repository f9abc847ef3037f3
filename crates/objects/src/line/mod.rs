//! The bytes of objects: names, log objects, checkpoints, the object that describes the pool.

pub(crate) mod checkpoint;
pub(crate) mod extent_map;
pub(crate) mod history;
pub(crate) mod log_object;
pub(crate) mod names;
pub(crate) mod pool_object;
pub(crate) mod ranges;
pub(crate) mod replay;
