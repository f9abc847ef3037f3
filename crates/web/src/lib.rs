//! The HTTP API `/v1`, and the pages that use it.
//!
//! It is a client of the daemon, like the command line. So the daemon decides what a caller may do, and no HTTP is read
//! in the process that has the keys.
//!
//! # What it guarantees
//!
//! - **No process speaks for others.** A connection at the unix socket is served by a process of its own, with the uid
//!   of the user who connected. The process that accepts connections reads nothing from them.
//! - **A request is small and quick, or refused.** Head, body and time are limited, and so are the connections and
//!   streams of each caller. A stream of data may be long; one piece of it is in memory, and it ends if it stands still.
//! - **A page of another site cannot use it.** `Host`, `Origin` and `Sec-Fetch-SiteContext` are checked. A request that
//!   changes something needs a header that such a page cannot send.
//! - **Secrets are only in bodies.** A body is read into locked memory, and nothing of it is logged.
//!
//! # Layers, the lowest first
//!
//! | layer | holds |
//! |---|---|
//! | `shape` | what a request looks like, found out from its type |
//! | `memory` | what long bodies, long answers and streams may take |
//! | `http` | requests and responses on a connection |
//! | `assets` | the files of the pages |
//! | `guard` | requests that pages of other sites may have made |
//! | `api` | what is asked of the daemon, and its answer as JSON |
//! | `session` | tokens, and sessions of browsers |
//! | `link` | the session that a link opens |
//! | `door` | who asks: by the socket, a token or a link |
//! | `serve` | one connection |
//! | `tls` | the certificate, and connections under TLS |
//! | `remote` | requests to a site on another host |
//! | `listen` | the sockets, and the processes that serve them |

mod api;
mod assets;
mod door;
mod guard;
mod http;
mod link;
mod listen;
mod memory;
mod remote;
mod serve;
mod session;
mod shape;
mod tls;

pub use remote::RemoteSite;
pub use tls::IdentityFiles;

pub use listen::{
    CONNECTION, NETWORK, Network, default_socket, run, serve_connection, serve_link, serve_network,
};
