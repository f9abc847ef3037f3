//! Re-encryption: of containers at rest and in use, and after power cuts.

#[path = "../common/mod.rs"]
mod common;

mod device_size;
mod encryption;
mod online;
mod online_power_cut;
mod reencrypt;
mod refusals;
