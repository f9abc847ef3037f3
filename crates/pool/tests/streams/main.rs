//! Streams: what is sent is received, and what does not fit is refused.

#[path = "../common/mod.rs"]
mod common;

mod receive_clone;
mod receive_quota;
mod resume;
mod send;
mod send_broken;
mod send_ways;
