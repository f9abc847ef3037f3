//! Mounts, and exports over NBD.

pub(crate) mod mount;
pub(crate) mod nbd;
