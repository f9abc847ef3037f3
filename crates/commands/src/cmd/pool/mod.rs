//! Pools, their devices and their health.

pub(super) mod args;
pub(super) mod run;
