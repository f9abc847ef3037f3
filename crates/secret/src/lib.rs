//! Secrets in locked memory.
//!
//! - [`Secret`] holds bytes of any number: a passphrase, a key file.
//! - [`Key`] holds a key of 256 bits.
//! - [`LockedBox`] holds any other value, such as an expanded key.
//! - [`harden_process`] keeps the rest of the memory out of core dumps.
//!
//! What it guarantees:
//! - A secret is in locked memory from its first byte on: constructors read or compute it there.
//! - The memory is not swapped, not dumped, and not inherited by a child process.
//! - It is wiped when the secret is dropped. Only `try_clone` copies a secret.
//! - Secrets are compared in constant time, and print as `[redacted]`.
//! - All secrets of the process lock at most 256 MiB. An allocation beyond this limit fails.
//!
//! This crate depends on no other crate of the workspace. All `unsafe` code is in `memory`.
//!
//! Layers, lowest first:
//! - `error`;
//! - `memory`: pages that are cut into slots (`arena`), one slot as bytes (`region`), one slot with a
//!   value ([`LockedBox`]);
//! - `secret` and `key`; `process`, which uses no other module.

mod error;
mod key;
mod memory;
mod process;
mod secret;

pub use error::{Error, Result};
pub use key::Key;
pub use memory::LockedBox;
pub use process::harden_process;
pub use secret::Secret;
