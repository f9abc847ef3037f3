//! Mounts, exports over NBD and iSCSI, and devices of the kernel.

pub(crate) mod iscsi;
pub(crate) mod mount;
pub(crate) mod nbd;
mod take_in;
pub(crate) mod ublk;
