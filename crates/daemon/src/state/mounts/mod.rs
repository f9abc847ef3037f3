//! Mounts: their directories, and their records for the next start.

pub(crate) mod awaited_mounts;
pub(crate) mod metered_files;
pub(crate) mod mount_options;
pub(crate) mod mount_records;
pub(crate) mod mounted_dirs;
pub(crate) mod mountpoints;
pub(crate) mod nfs_share;
pub(crate) mod refreshed_files;
