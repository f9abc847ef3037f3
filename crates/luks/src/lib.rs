//! LUKS1 and LUKS2 containers, compatible with cryptsetup and the Linux kernel.
//!
//! A container is a device with a header. The data, behind the header or on another device, is encrypted sector by
//! sector. The header protects the key of the data (the volume key) with passphrases, one for each key slot.
//!
//! - [`Header::read`] reads a header; [`Container::open`] opens a container, to unlock or change it.
//! - [`Container::unlock`] gives the volume key for a passphrase; `add_key` and others change the passphrases.
//! - [`format()`] makes containers.
//! - [`Mapping`] is the data, decrypted, as a [`block::BlockDevice`].
//!
//! What it guarantees:
//! - A header is not trusted: all of it is checked before any of it is used. The memory and time that it can use is
//!   limited.
//! - After a power cut during a change, the header has the complete old state or the complete new state.
//! - A wrong passphrase, a damaged key slot and an unknown encryption are three errors.
//!
//! Layers, lowest first:
//! - `error`, `crypto`, `kdf`, `model`: algorithms by name, and the types that both versions share;
//! - `keyslot`, [`luks1`], [`luks2`]: key material, and the two kinds of headers;
//! - `integrity`: sectors with tags;
//! - `container`: a header in use; `slots`, `change_key`, `token`, `unbound`, `dump`, `backup`, `convert`, `format` and
//!   `reencrypt` work on one;
//! - `lock`: the lock of a re-encryption;
//! - `mapping` and `plain`: the data; `flags`: how the header wants it to be served.

#![forbid(unsafe_code)]

mod backup;
mod change_key;
mod container;
mod convert;
mod crypto;
mod dump;
mod error;
mod flags;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod header;
mod integrity;
mod kdf;
mod keyslot;
mod lock;
pub mod luks1;
pub mod luks2;
mod mapping;
mod model;
mod plain;
mod reencrypt;
mod slot_refs;
mod slots;
mod token;
mod unbound;

pub use backup::{BACKUP_LEN_MAX, read_backup, restore};
pub use container::{Container, Unlocked};
pub use error::{Error, Result};
pub use flags::Flag;
pub use format::{Format, format};
pub use header::{Header, repair};
pub use integrity::{integrity_type, wipe};
pub use kdf::{Argon2Cost, Kdf, KdfChoice, KdfKind, Variant};
pub use lock::ReencryptionLock;
pub use mapping::{Failing, Flags, Mapping, MappingMeter, Plain, Served, ServedTotals};
pub use model::{Digest, Integrity, Keyslot, Priority, SECTOR, Segment, Version};
pub use plain::plain_key;
pub use reencrypt::{
    BothKeys, Pace, Progress, Protection, Reencrypt, Reencrypted, Stage, begin_encryption,
    begin_encryption_in_place,
};
pub use slots::SlotChoice;
