//! Mounts and exports.

pub(super) mod args;
pub(super) mod run;
