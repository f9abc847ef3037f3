//! The file system that is mounted: a dataset with the directory of its snapshots.

pub(crate) mod closed_dirs;
pub(crate) mod open_snapshots;
pub(crate) mod snapshot_dir;
