//! The daemon: it owns imported pools, loaded keys and mounts, and serves commands on a unix socket.
//!
//! The crate `protocol` defines the messages on the socket, and the client. [`serve()`] runs the daemon.
//!
//! # Layers, the lowest first
//!
//! Each layer is a folder. A module imports modules of its own layer and of the layers below it. No
//! modules import each other in a circle (`scripts/circles`).
//!
//! | layer | holds |
//! |---|---|
//! | `host` | the machine: time, users, directories, sockets, signals |
//! | `state` | the tables of the daemon: pools with keys, volumes, mounts; exports, mappings, zones; callers of commands |
//! | `ops` | the work of requests: a file or folder for each kind |
//! | `serve` | sockets and connections: dispatch of requests, permissions, the view of zones, metrics |
//! | `front_ends` | the list of front ends |
//! | `run`, `shutdown` | the start and the end of the daemon |

mod failure;
mod front_ends;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
mod ops;
mod run;
mod serve;
mod shutdown;
mod state;
#[cfg(test)]
mod tests;

pub use host::crypto;
pub use host::listen::{SocketFile, listen_beside, listen_privately};
pub use host::pkcs11::{TOKEN_HELPER, token_modules};
pub use host::process::input::at_end_of_input;
pub use ops::mappings::container_tokens;
pub use ops::pools::features::{FORMAT_VERSION, known_features};
pub use ops::snapshots::anchor_line;
pub use run::{ServeOptions, leave_terminal, serve};
