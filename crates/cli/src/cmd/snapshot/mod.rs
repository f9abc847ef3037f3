//! Snapshots, clones and what holds them.

pub(super) mod args;
pub(super) mod run;
