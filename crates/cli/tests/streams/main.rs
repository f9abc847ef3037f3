//! Streams: send, receive, replication, forgeries.

#[path = "../common/mod.rs"]
mod common;

mod estimates;
mod forged;
mod origin;
mod plain;
mod replicate;
mod transfer;
