//! Streams of snapshots: sending and receiving them.

pub(crate) mod receive;
pub(crate) mod send;
