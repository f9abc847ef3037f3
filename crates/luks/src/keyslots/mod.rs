//! Key slots: passphrases, tokens and keys without data, which are added to a container, changed and removed.
//!
//! `kdf` and `material` are the lowest layer: password hashes, and the encrypted keys.

mod change_key;
pub(crate) mod kdf;
pub(crate) mod material;
pub(crate) mod slot_refs;
pub(crate) mod slots;
mod token;
pub(crate) mod unbound;

pub use kdf::{Argon2Cost, Kdf, KdfChoice, KdfKind, Variant};
pub use slots::SlotChoice;
