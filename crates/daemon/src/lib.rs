//! The daemon: it owns imported pools, loaded keys and mounts, and serves commands on a unix socket.

pub mod api;
pub mod client;
pub mod wire;
