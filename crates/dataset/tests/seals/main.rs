//! Seals: their history, new data keys, and logs that someone changed.

#[path = "../common/mod.rs"]
mod common;

mod forged_log;
mod rotation;
mod seal_history;
