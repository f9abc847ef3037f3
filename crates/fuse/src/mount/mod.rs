//! Mounts in the tree of directories: checked paths, attaching, unmounting, and the list of the kernel.
//!
//! The uppermost layer. `fuse_mount` is the public interface.

pub(crate) mod attach;
pub(crate) mod dead_mounts;
pub(crate) mod foreign;
pub(crate) mod fuse_mount;
pub(crate) mod guard;
pub(crate) mod helper;
pub(crate) mod holder;
pub(crate) mod mountinfo;
pub(crate) mod mountpoint;
pub(crate) mod obstacles;
pub(crate) mod open_directory;
pub(crate) mod tune;
