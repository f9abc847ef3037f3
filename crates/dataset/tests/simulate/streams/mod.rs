//! Streams, and the datasets that receive them.

pub mod taker;
pub mod transfer;
