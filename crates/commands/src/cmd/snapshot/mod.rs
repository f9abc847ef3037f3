//! Snapshots, clones and holds.

pub(super) mod args;
pub(super) mod run;
