//! Checkpoints, and imports of the state that they keep.

#[path = "../common/mod.rs"]
mod common;

mod checkpoint_life;
mod checkpoint_ways;
