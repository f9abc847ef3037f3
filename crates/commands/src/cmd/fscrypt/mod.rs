//! Directories that the kernel encrypts.

pub(super) mod args;
pub(super) mod run;
