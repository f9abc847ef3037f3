//! The daemon, and commands that need no pool.

pub(super) mod args;
pub(super) mod run;
