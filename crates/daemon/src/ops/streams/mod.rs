//! Streams: sending and receiving datasets.

pub(crate) mod piece;
pub(crate) mod receive;
pub(crate) mod receive_policy;
pub(crate) mod receive_right;
pub(crate) mod replication;
pub(crate) mod send;
