//! The server: exports, the negotiation with a client, and the requests that follow.
//!
//! The layer above `wire`.

pub(crate) mod buffers;
pub(crate) mod connection;
pub(crate) mod execute;
pub(crate) mod export;
pub(crate) mod negotiate;
pub(crate) mod server;
