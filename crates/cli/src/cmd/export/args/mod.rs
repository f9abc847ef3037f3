//! Mounts, and exports over NBD.

mod mount;
mod nbd;

pub(crate) use mount::{Mount, MountOption, Unmount};
pub(crate) use nbd::{Nbd, NbdExport, NbdList};
