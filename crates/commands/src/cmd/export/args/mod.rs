//! Mounts, and exports over NBD and iSCSI.

mod iscsi;
mod mount;
mod nbd;

pub(crate) use iscsi::{Iscsi, IscsiExport};
pub(crate) use mount::{Mount, Unmount};
pub(crate) use nbd::{Nbd, NbdAttach, NbdDetach, NbdExport, NbdList};
