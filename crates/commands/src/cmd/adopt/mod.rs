//! `adopt`: a directory is copied into a dataset, and verified.

pub(super) mod args;
pub(super) mod run;
