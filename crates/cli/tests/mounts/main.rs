//! Mounts of datasets, judged by the tools and tests of Linux, and their mountpoints.

#[path = "../common/mod.rs"]
mod common;

mod closed_dirs;
mod held_mounts;
mod holetest;
mod judges;
mod linux_files;
mod mount_as_linux;
mod mounted_datasets;
mod overlay;
mod take_in;
mod unmounted_mountpoints;
mod unmounted_users;
mod versions;
