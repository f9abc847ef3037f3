//! What programs use: mounts and exports.

pub(super) mod args;
pub(super) mod run;
