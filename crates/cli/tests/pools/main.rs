//! Pools: devices, capacity, checkpoints, features of older versions.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/servers/bucket.rs"]
mod bucket;

mod caches;
mod checkpoint;
mod full;
mod golden;
mod growth;
mod object_store;
mod one_owner;
mod pool_commands;
mod pool_files;
mod retention;
mod split;
mod stores;
mod suspension;
mod under_load;
