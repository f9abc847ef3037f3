//! Streams: what is sent is received, what does not fit is refused, and what was received is proved.

#[path = "../common/mod.rs"]
mod common;

mod proof;
mod receive_clone;
mod receive_quota;
mod resume;
mod send;
mod send_broken;
mod send_ways;
