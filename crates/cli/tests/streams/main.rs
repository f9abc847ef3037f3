//! Streams: send, receive, replication, forgeries.

#[path = "../common/mod.rs"]
mod common;

mod estimates;
mod forgeries;
mod origin;
mod plain;
mod replicate;
mod transfer;
