//! Streams: send, receive, replication, forgeries.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/servers/web.rs"]
mod site;

mod estimates;
mod forgeries;
mod jobs;
mod jobs_https;
mod jobs_ssh;
mod origin;
mod plain;
mod replicate;
mod transfer;
mod verification;
