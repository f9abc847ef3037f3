//! Block ciphers, and what their modes share: arithmetic in GF(2^128), tweaks, and the wide-block mode Adiantum.

pub(crate) mod adiantum;
pub(crate) mod blocks;
mod cfb;
pub(crate) mod field;
pub(crate) mod libgcrypt;
pub(crate) mod per_thread;
pub(crate) mod tweakable_cipher;
pub(crate) mod tweaks;

pub use cfb::{cfb_decrypt, cfb_encrypt};
