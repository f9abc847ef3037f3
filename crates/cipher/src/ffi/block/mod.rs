//! Block ciphers and sectors: AES with its modes, and tweaks in vector registers.

mod aes;
mod sector;
mod tweak;

pub(crate) use aes::AesKey;
pub(crate) use sector::{CbcKey, Ecb, Xts256};
pub(crate) use tweak::TweakElement;
