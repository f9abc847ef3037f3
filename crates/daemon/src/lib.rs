//! The daemon: it owns imported pools, loaded keys and mounts, and serves commands on a unix socket.
//!
//! [`client`] is the commands' side, [`api`] what both sides say, [`wire`] how. [`serve`] is the
//! daemon itself.

mod acceptances;
mod accepted;
mod account_property;
mod alarm;
mod anchor;
pub mod api;
mod authorize;
mod borrowed;
mod caches;
mod candidates;
pub mod client;
mod clones;
mod connections;
mod context;
pub mod crypto;
mod datasets;
mod delegation;
mod device_name;
mod devices;
mod diff;
pub mod digits;
mod exports;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod guests;
mod handing;
mod health;
mod huge_pages;
mod imported;
mod inspect;
mod keybackup;
mod keychange;
mod keycommands;
mod keyholder;
mod keysatstart;
mod keyslots;
mod keyuses;
mod listen;
mod loans;
mod mapping_table;
mod mappings;
mod memory;
mod metrics;
mod mountpoints;
mod mounts;
mod notify;
mod plan;
mod pools;
mod properties;
mod query;
mod reception;
mod reencrypt;
mod restore;
#[cfg(test)]
mod rights;
mod run;
mod said;
mod server;
mod shred;
mod shutdown;
pub mod sizes;
mod state;
mod statedir;
mod stops;
mod system;
#[cfg(test)]
mod tests;
mod tokens;
mod transfer;
mod users;
mod userspace;
mod volume_state;
mod volumes;
pub mod wire;
mod zones;

pub use run::{ServeOptions, serve};
pub use tokens::{TOKEN_HELPER, token_modules};
