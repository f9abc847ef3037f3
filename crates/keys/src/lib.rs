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
//! - [`Keyring`] is stored with a dataset. It has a [`WrappingKeyAccess`] (the [`KeySlot`]s that unlock the
//!   [`WrappingKey`], or the
//!   id of the ancestor with that key) and the [`KeyGeneration`]s of [`DataKeys`]. The module `layout` defines the bytes,
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
//! - `source`: key sources by name; `system`: opening files, starting programs;
//! - `hash`, `key`, `wrap`: password hashes, new keys, one key wrapping another; `recovery_key`: keys to print;
//! - `tpm`: the data that the TPM of this machine seals and opens; `fido2`: the secrets that an authenticator
//!   computes;
//! - `network`: TLS and HTTP; `clevis`: data sealed to a Tang server, for a slot or as clevis does it;
//! - `shares`: a key in shares, each of which one of these protects;
//! - `token`: keys in PKCS#11 tokens; `material`: the material that opens a slot, and its sources;
//! - [`kernel`]: keys for encryption by the kernel, and keys that it keeps, independent of the rest;
//! - `keyring`: the stored types.

mod clevis;
mod error;
mod fido2;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod hash;
pub mod kernel;
mod key;
mod keyring;
mod layout;
mod material;
mod network;
mod recovery_key;
mod shares;
mod source;
mod system;
mod token;
mod tpm;
mod wrap;

pub(crate) use clevis::is_for_server;
pub use clevis::{TangKey, clevis};
pub use error::{Error, Result};
pub use fido2::{FidoHolder, FidoToken};
pub use format::{MaterialFormat, PASSPHRASE_MAX, PASSPHRASE_MIN};
pub use hash::argon2::Argon2Params;
pub use hash::argon2_fit::{Argon2Cost, Argon2Fit};
pub use hash::budget::{
    HashCaller, HashScope, HashWork, hash_for, hash_memory, machine_memory_kib, set_hash_memory,
};
pub use hash::guess_cost::{GuessCost, SlotHash};
pub use hash::pbkdf2::{Pbkdf2Params, pbkdf2_fit};
pub use hash::queue::{HashMemory, HashPayer};
pub use kernel::user_key::user_key;
pub use key::random_key;
pub use keyring::Keyring;
pub use keyring::backup::{Backup, BackupKeyring};
pub use keyring::generation::{DataKeys, Heads, KeyGeneration};
pub use keyring::slot::{KeySlot, SharedSlot, SlotKind, TangSlot, TokenSlot, TpmSlot};
pub use keyring::wrapping_key::WrappingKey;
pub use keyring::wrapping_key_access::WrappingKeyAccess;
pub use layout::SLOTS_MAX;
pub use material::deadline::in_time;
pub use material::https::fetch;
pub use material::key_file::{
    keygen, read_pin, read_private, read_private_part, write_key_file, write_private_file,
};
pub use material::key_material::{
    KeyMaterial, Warning, material_from_prompt, read_file, read_file_with,
};
pub use material::provider::{KeyRequest, ask_provider};
pub use recovery_key::{mistyped_group, new_recovery_key};
pub use shares::SharedKey;
pub use source::{
    KeySource, KeyUrl, Location, ProviderSource, SharedSource, TangUrl, TokenUri, TpmSource,
};
pub use system::child::TimedStream;
pub use token::{TokenKey, TokenModules, serve_token, token_keygen, token_material, token_secret};
pub(crate) use tpm::is_for_tpm;
pub use tpm::{TpmKey, TpmToken};
