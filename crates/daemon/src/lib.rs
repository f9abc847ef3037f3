//! The daemon: it owns imported pools, loaded keys and mounts, and serves commands on a unix socket.
//!
//! [`client`] is the commands' side, [`api`] what both sides say, [`wire`] how. [`serve`] is the
//! daemon itself.

pub mod api;
pub mod client;
mod datasets;
mod failure;
mod imported;
mod inspect;
mod keyholder;
mod mounts;
mod pools;
mod properties;
mod query;
mod run;
mod server;
mod state;
mod users;
pub mod wire;

pub use run::{ServeOptions, serve};
