//! Damage and logs: scrubs, and entries that a log replays.

#[path = "../common/mod.rs"]
mod common;

mod log;
mod scrub;
