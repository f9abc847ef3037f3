//! An export of an NBD server, as a device.
//!
//! - `tls`: the certificates of a client;
//! - `connect`: a socket to a server, within a time limit;
//! - `handshake`: agrees with the server on an export;
//! - `reply`: answers, and what they may contain;
//! - `connection`: several requests on their way at the same time;
//! - `device`: the device, which is lost with its connection until it is asked for its size.
//!
//! The server is hostile input. Everything that it sends has limits, and each request has a time limit. A connection on
//! which the server breaks the protocol is not used any more.

mod connect;
mod connection;
mod device;
mod handshake;
mod reply;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

#[cfg(any(test, fuzzing))]
pub(crate) use connection::Connection;
pub use device::RemoteExport;
#[cfg(any(test, fuzzing))]
pub(crate) use handshake::negotiate;
#[cfg(any(test, fuzzing))]
pub(crate) use reply::{Asked, Wanted};
pub use tls::ClientTls;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port of a host, by its name or address.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until there is a connection with an export, its name looked up and all.
    pub connect: Duration,
    /// Until a request is answered.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
        }
    }
}

/// An export of a server.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The server.
    pub address: Address,
    /// The name of the export; the default export has an empty one.
    pub export: String,
    /// With it the server has to prove who it is, and everything is encrypted.
    pub tls: Option<ClientTls>,
    /// The name of the device in messages: its address.
    pub name: String,
    /// Time limits.
    pub patience: Patience,
}
