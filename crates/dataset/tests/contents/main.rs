//! Contents of files: what is written is read again, by whatever path.

#[path = "../common/mod.rs"]
mod common;

mod copies;
mod file_blocks;
mod file_flags;
mod layers;
mod log;
mod random;
mod record_cache;
mod snapshot_dir;
mod threads;
