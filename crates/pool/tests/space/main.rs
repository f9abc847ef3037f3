//! Space: allocation, frees, limits, dedup, and records in pieces.

#[path = "../common/mod.rs"]
mod common;

mod arrays;
mod dedup;
mod freeing;
mod gangs;
mod limits;
mod promised_space;
mod random;
mod sweep;
mod whole_blocks;
