//! `audit`: the log of who did what to a pool.

pub(super) mod args;
mod export;
mod report;
pub(super) mod run;
