//! The name of an export of another server, and the timeouts of the client.

use std::path::PathBuf;
use std::time::Duration;

use super::tls::ClientTls;

/// The address at which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port of a host, by its name or address.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

/// The times that the client waits for a server.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// Until there is a connection with an export, its name looked up and all.
    pub connect: Duration,
    /// Until a request is answered.
    pub answer: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> ClientTimeouts {
        ClientTimeouts {
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
    pub patience: ClientTimeouts,
}
