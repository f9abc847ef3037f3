//! Streams: send, receive, replication, forgeries.

#[path = "../common/mod.rs"]
mod common;

mod estimates;
mod forgeries;
mod jobs;
mod jobs_ssh;
mod origin;
mod plain;
mod replicate;
mod transfer;
mod verification;
