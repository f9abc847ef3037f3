//! The sockets, and the processes that serve them.
//!
//! ```text
//!  strongroom web ---- accepts at the unix socket ----> a process for each connection, with the uid of its user
//!        |
//!        +------------ binds the address -------------> one process for the network, with the uid of nobody
//!
//!  strongroom web open -- serves 127.0.0.1 itself, with the rights of its user, until one session is over
//! ```
//!
//! The first process reads nothing from clients. It is root, if the daemon is root's, because only root can start
//! processes of other users.

mod children;
mod descriptors;
mod loopback;
mod network;
mod parent;
mod peer_user;
mod processes;
mod settings;
mod threaded_site;

pub use children::{serve_connection, serve_network};
pub use loopback::serve_link;
pub use parent::{Network, default_socket, run};
pub use processes::{CONNECTION, NETWORK};
