//! Damaged and suspended pools: the data as it was, or an error.

#[path = "../common/mod.rs"]
mod common;

mod every_bit;
mod flipped_bits;
mod suspension;
