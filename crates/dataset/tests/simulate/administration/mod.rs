//! Commands of an administrator on datasets, keys, clones and checkpoints.

pub mod checkpoints;
pub mod clones;
pub mod commands;
pub mod secrets;
