//! The sockets, and the processes that serve them.
//!
//! ```text
//!  strongroom web ---- accepts at the unix socket ----> a process for each connection, with the uid of its user
//!        |
//!        +------------ binds the address -------------> one process for the network, with the uid of nobody
//! ```
//!
//! The first process reads nothing from clients. It is root, if the daemon is root's, because only root can start
//! processes of other users.

mod children;
mod descriptors;
mod network;
mod parent;
mod processes;
mod settings;

pub use children::{serve_connection, serve_network};
pub use parent::{Network, default_socket, run};
pub use processes::{CONNECTION, NETWORK};
