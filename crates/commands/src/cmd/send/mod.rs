//! Datasets as streams.

pub(super) mod args;
mod progress;
pub(super) mod run;
