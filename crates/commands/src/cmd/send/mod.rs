//! Datasets as streams, and the verification of copies.

pub(super) mod args;
mod progress;
pub(super) mod run;
pub(super) mod verify;
