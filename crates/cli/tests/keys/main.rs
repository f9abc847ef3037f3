//! Keys of datasets: their whole life, where they come from, and ciphers.

#[path = "../common/mod.rs"]
mod common;

mod crypto;
mod key_life;
mod key_sources;
mod prompts;
mod shared_key;
mod sheet;
mod shred;
mod tang;
mod tpm;
mod unload;
mod wrong_keys;
