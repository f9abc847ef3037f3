//! The daemon: it owns imported pools, loaded keys and mounts, and serves commands on a unix socket.
//!
//! What travels over the socket, and the commands' side of it, is the crate `protocol`. [`serve()`] is the
//! daemon itself.
//!
//! # Layers, the lowest first
//!
//! Each layer is a folder. A module imports modules of its own layer and of the layers below it. No
//! modules import each other in a circle (`scripts/circles`).
//!
//! | layer | holds |
//! |---|---|
//! | `host` | what the machine gives: time, users, directories, sockets, signals |
//! | `state` | what the daemon has: pools with keys, volumes and mounts; exports, mappings and zones; the caller of a command |
//! | `ops` | what can be asked for: a file or folder for each kind of request |
//! | `serve` | sockets and connections: which request is it, who may make it, what a zone sees, metrics |
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

pub use failure::Failure;
pub use host::crypto;
pub use host::listen::{Bound, listen_privately};
pub use host::tokens::{TOKEN_HELPER, token_modules};
pub use ops::anchor_line;
pub use ops::features::{FORMAT_VERSION, known_features};
pub use run::{ServeOptions, leave_terminal, serve};
