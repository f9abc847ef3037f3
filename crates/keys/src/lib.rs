//! Keys: where they come from, and how they protect each other.
//!
//! ```text
//! key source --KDF--> slot key --unwraps--> wrapping key --unwraps--> generation of a keyring
//! (passphrase, file)  (one per slot)        (inherited by children)   (data, dedup and seal key)
//! ```
//!
//! - [`KeySource`] says where the key of a dataset comes from, in the property syntax of ZFS.
//!   [`read_file`], [`fetch`], [`ask_provider`] and [`material_from_prompt`] get the [`KeyMaterial`]. [`keygen`] and
//!   [`write_key_file`] make new key files.
//! - [`GuessCost`] is the cost of trying a passphrase: [`Argon2Params`], or [`Pbkdf2Params`] in FIPS mode.
//! - [`Keyring`] is stored with a dataset. It has a [`Wrapping`] (the [`Slot`]s that unlock the [`WrappingKey`], or the
//!   id of the ancestor with that key) and the [`Generation`]s of [`DataKeys`]. The module `layout` defines the bytes,
//!   and `docs/FORMAT.md` describes them. A [`Backup`] is a copy of keyrings, to keep elsewhere.
//!
//! What it guarantees:
//! - A wrong key and damaged data are two errors. The blob of a keyring has a checksum, and each wrapped
//!   key has a commitment to the key that wrapped it.
//! - Keys are in locked memory ([`secret`]) from their source to their use.
//! - Key sources and keyrings are not trusted: the memory and time that they can use is limited.
//!
//! Layers, lowest first:
//! - `layout`, `format`, `error`: bytes and errors;
//! - `source`: key sources by name; `file`, `trusted`, `child`: opening files, starting programs;
//! - `hash_queue`, `budget`, `argon2_fit`, `kdf`, `pbkdf2`, `guess_cost`, `key`, `wrap`: password hashes, new keys, one
//!   key wrapping another;
//! - `tpm`: what the TPM of this machine seals and opens; `fido2`: what an authenticator computes;
//! - `tls`, `http`; `clevis`: what is sealed to a Tang server, for a slot or as clevis does it;
//! - `shares`: what several of these hold together;
//! - the parts of `token`, then `material`: the material that opens a slot;
//! - `https`, `provider`, `token`, `keyfile`, `deadline`: sources of material;
//! - [`kernel`], `user_key`: keys for encryption by the kernel, and keys that it keeps, independent of the rest;
//! - `wrapping_key`, `slot`, `wrapping`, `generation`, `keyring`, `backup`: the stored types.

mod argon2_fit;
mod backup;
mod budget;
mod child;
mod clevis;
mod deadline;
mod error;
mod fido2;
mod file;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generation;
mod guess_cost;
mod hash_queue;
mod http;
mod https;
mod kdf;
pub mod kernel;
mod key;
mod keyfile;
mod keyring;
mod layout;
mod material;
mod pbkdf2;
mod provider;
mod shares;
mod slot;
mod source;
mod tls;
mod token;
mod tpm;
mod trusted;
mod user_key;
mod wrap;
mod wrapping;
mod wrapping_key;

pub use argon2_fit::{Argon2Cost, Argon2Fit};
pub use backup::{Backup, BackupKeyring};
pub use budget::{
    HashCaller, HashScope, HashWork, hash_for, hash_memory, machine_memory_kib, set_hash_memory,
};
pub use child::Talk;
pub(crate) use clevis::is_for_server;
pub use clevis::{TangKey, clevis};
pub use deadline::in_time;
pub use error::{Error, Result};
pub use fido2::{FidoHolder, FidoToken};
pub use format::{Format, PASSPHRASE_MAX, PASSPHRASE_MIN};
pub use generation::{DataKeys, Generation, Heads};
pub use guess_cost::{GuessCost, SlotHash};
pub use hash_queue::{HashMemory, HashPayer};
pub use https::fetch;
pub use kdf::Argon2Params;
pub use key::random_key;
pub use keyfile::{
    keygen, read_pin, read_private, read_private_part, write_key_file, write_private_file,
};
pub use keyring::Keyring;
pub use layout::SLOTS_MAX;
pub use material::{KeyMaterial, Warning, material_from_prompt, read_file, read_file_with};
pub use pbkdf2::{Pbkdf2Params, pbkdf2_fit};
pub use provider::{KeyRequest, ask_provider};
pub use shares::SharedKey;
pub use slot::{SharedSlot, Slot, SlotKind, TangSlot, TokenSlot, TpmSlot};
pub use source::{
    KeySource, KeyUrl, Location, Provider, SharedSource, TangUrl, TokenUri, TpmSource,
};
pub use token::{TokenKey, TokenModules, serve_token, token_keygen, token_material, token_secret};
pub(crate) use tpm::is_for_tpm;
pub use tpm::{TpmKey, TpmToken};
pub use user_key::user_key;
pub use wrapping::Wrapping;
pub use wrapping_key::WrappingKey;
