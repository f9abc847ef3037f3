//! What programs use: mounts and NBD exports.

pub(super) mod args;
pub(super) mod run;
