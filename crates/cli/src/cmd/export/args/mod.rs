//! Mounts, and exports over NBD.

mod mount;
mod nbd;

pub(crate) use mount::{Mount, MountOption, Unmount, mount_option};
pub(crate) use nbd::{Nbd, NbdExport, NbdList};
