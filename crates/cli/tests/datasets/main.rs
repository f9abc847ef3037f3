//! Datasets and volumes: properties, limits, snapshots, clones, and what is stored.

#[path = "../common/mod.rs"]
mod common;

mod bookmarks;
mod clones;
mod copies;
mod diff;
mod file_blocks;
mod limits;
mod primary_cache;
mod properties;
mod quota;
mod renames;
mod userspace;
mod volumes;
