//! Bytes from and to the other end: the numbers of the protocol, sockets, TLS and limits of time.
//!
//! The lowest layer. The server and the client use it.

pub(crate) mod input;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod proto;
pub(crate) mod tls;
