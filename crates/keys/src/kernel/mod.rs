//! Keys that the kernel holds: those of its file encryption, and those of a user's keyring.

mod fscrypt;
pub(crate) mod user_key;

pub use fscrypt::*;
