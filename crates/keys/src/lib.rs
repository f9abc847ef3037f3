//! Secrets, where they come from, and how they protect each other.
//!
//! ```text
//! key source --KDF--> slot key --unwraps--> wrapping key --unwraps--> generation of a keyring
//! (passphrase, file)  (one per slot)        (inherited by children)   (data, dedup and seal key)
//! ```
//!
//! - [`Secret`], [`Key`] and [`Locked`] keep secrets in locked memory. None can be cloned by accident
//!   or printed, and all are wiped when dropped. [`harden_process`] keeps them out of core dumps.
//! - [`KeySource`] says where the key of a dataset comes from, in the property syntax of ZFS;
//!   [`read_file`], [`fetch`], [`ask_provider`] and [`material_from_prompt`] turn it into [`KeyMaterial`]; [`keygen`] and
//!   [`write_key_file`] make new key files.
//! - [`Argon2Params`] is the cost of trying a passphrase.
//! - [`Keyring`] is what is stored with a dataset: its [`Wrapping`] (the [`Slot`]s that unlock the
//!   [`WrappingKey`], or the id of an ancestor's) and its [`Generation`]s of [`DataKeys`]. The bytes
//!   are defined in the module `layout`, and described in `docs/FORMAT.md`. [`Backup`] is a copy of
//!   some, to keep elsewhere.
//!
//! A wrong key and damaged data are different errors: the blob of a keyring carries a checksum, and
//! each wrapped key carries a commitment to the key that wrapped it.

mod backup;
mod budget;
mod deadline;
mod error;
mod file;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generation;
mod https;
mod kdf;
mod keyfile;
mod keyring;
mod layout;
mod material;
mod memory;
mod process;
mod provider;
mod secret;
mod slot;
mod source;
mod tls;
mod token;
mod wrap;
mod wrapping;

pub use backup::{Backup, BackupKeyring};
pub use budget::{HashMemory, HashWork, hash_for, hash_memory, set_hash_memory};
pub use deadline::in_time;
pub use error::{Error, Result};
pub use generation::{DataKeys, Generation};
pub use https::{KeyUrl, fetch};
pub use kdf::Argon2Params;
pub use keyfile::{keygen, write_key_file, write_private_file};
pub use keyring::Keyring;
pub use material::{
    KeyMaterial, PASSPHRASE_MAX, PASSPHRASE_MIN, Warning, material_from_prompt, read_file,
    read_file_with,
};
pub use memory::Locked;
pub use process::harden_process;
pub use provider::{KeyRequest, Provider, ask_provider};
pub use secret::{Key, Secret};
pub use slot::{Slot, SlotKind, TokenSlot};
pub use source::{Format, KeySource, Location};
pub use token::{
    TokenKey, TokenModules, TokenUri, read_pin, serve_token, token_keygen, token_material,
};
pub use wrapping::{SLOTS_MAX, Wrapping, WrappingKey};
