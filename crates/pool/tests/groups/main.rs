//! Groups of devices: mirrors, parity, growth, removal, and devices that are missing or slow.

#[path = "../common/mod.rs"]
mod common;

mod growth;
mod log_devices;
mod mirrors;
mod missing_devices;
mod parity;
mod removal;
mod second_level;
mod slow;
