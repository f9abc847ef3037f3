//! Mounts, and exports over NBD and iSCSI.

pub(crate) mod iscsi;
pub(crate) mod mount;
pub(crate) mod nbd;
mod take_in;
