//! Mounts, exports over NBD and iSCSI, and devices of the kernel.

mod iscsi;
mod mount;
mod nbd;
mod ublk;

pub(crate) use iscsi::{Iscsi, IscsiExportArgs};
pub(crate) use mount::{Mount, Unmount};
pub(crate) use nbd::{Nbd, NbdAttachArgs, NbdDetachArgs, NbdExportArgs, NbdList};
pub(crate) use ublk::{Ublk, UblkAttachArgs, UblkList};
