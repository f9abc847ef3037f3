//! Mappings: LUKS containers and plain volumes of dm-crypt, opened as devices of this process.

pub(crate) mod commands;
pub mod container_tokens;
pub(crate) mod key;
pub(crate) mod open;
pub(crate) mod reencryption;
pub(crate) mod start;
pub(crate) mod suspension;
