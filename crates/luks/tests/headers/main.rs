//! Headers: copies, backups, repair, and headers that are damaged.

#[path = "../common/mod.rs"]
mod common;

mod any_bytes;
mod backup;
mod bad_headers;
mod copies;
mod golden;
mod restore;
