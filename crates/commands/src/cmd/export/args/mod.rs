//! Mounts, and exports over NBD and iSCSI.

mod iscsi;
mod mount;
mod nbd;

pub(crate) use iscsi::{Iscsi, IscsiExportArgs};
pub(crate) use mount::{Mount, Unmount};
pub(crate) use nbd::{Nbd, NbdAttachArgs, NbdDetachArgs, NbdExportArgs, NbdList};
