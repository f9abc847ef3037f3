//! An export of an NBD server, as a device.
//!
//! - `remote`: which export, and how long its server is waited for;
//! - `tls`: the certificates of a client;
//! - `connect`: a socket to a server, within a time limit;
//! - `handshake`: agrees with the server on an export;
//! - `reply`: answers, and what they may contain;
//! - `connection`: several requests on their way at the same time;
//! - `dial`: a connection with an export that can be used;
//! - `device`: the device, which is lost with its connection until it is asked for its size.
//!
//! The server is hostile input. Everything that it sends has limits, and each request has a time limit. A connection on
//! which the server breaks the protocol is not used any more.

mod connect;
mod connection;
mod device;
mod dial;
mod handshake;
mod remote;
mod reply;
mod tls;

#[cfg(any(test, fuzzing))]
pub(crate) use connection::ClientConnection;
pub use device::RemoteExport;
#[cfg(any(test, fuzzing))]
pub(crate) use handshake::negotiate;
pub use remote::{Address, ClientTimeouts, Remote};
#[cfg(any(test, fuzzing))]
pub(crate) use reply::{ExpectedReply, PendingRequest};
pub use tls::ClientTls;
