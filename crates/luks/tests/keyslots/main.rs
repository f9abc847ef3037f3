//! Key slots: passphrases are added, changed and removed.

#[path = "../common/mod.rs"]
mod common;

mod change_key;
mod odd_slots;
mod slots;
