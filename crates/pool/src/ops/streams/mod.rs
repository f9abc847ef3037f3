//! Streams of snapshots: sending and receiving them, and proving that a pool still holds them.

pub(crate) mod proof;
pub(crate) mod receive;
pub(crate) mod send;
