//! Datasets as streams.

pub(super) mod args;
pub(super) mod run;
