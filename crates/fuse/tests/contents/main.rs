//! Contents of files: by system calls, through mappings, past the cache of the kernel, and in ranges.

#[path = "../common/mod.rs"]
mod common;

mod caching;
mod direct;
mod mappings;
mod ranges;
