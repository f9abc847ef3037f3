//! The targets that a pool serves by its `ha.toml`.

pub(super) mod args;
pub(super) mod run;
