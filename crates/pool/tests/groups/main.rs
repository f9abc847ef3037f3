//! Groups of devices: mirrors, parity, growth, removal, and devices that are missing or slow.

#[path = "../common/mod.rs"]
mod common;

mod followers;
mod growth;
mod incomplete_resilvers;
mod log_devices;
mod mirrors;
mod parity;
mod removal;
mod second_level;
mod slow;
