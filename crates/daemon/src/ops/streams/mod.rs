//! Streams: sending and receiving datasets, and verifying what was received.

pub(crate) mod piece;
pub(crate) mod receive;
pub(crate) mod receive_policy;
pub(crate) mod receive_right;
pub(crate) mod replication;
pub(crate) mod send;
pub(crate) mod verify;
