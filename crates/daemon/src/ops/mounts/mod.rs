//! Mounts of datasets, and their exports by the NFS server of the kernel.

pub(crate) mod commands;
pub(crate) mod limit;
pub(crate) mod newer_states;
pub(crate) mod nfs_shares;
pub(crate) mod restore;
pub(crate) mod selection;
pub(crate) mod settings;
pub(crate) mod unmounts;
