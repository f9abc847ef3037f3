//! Streams between pools, and differences between snapshots.

#[path = "../common/mod.rs"]
mod common;

mod diff;
mod transfer;
