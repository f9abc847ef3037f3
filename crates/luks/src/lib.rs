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
//! - `error`, `crypto`, `model`: algorithms by name, and the types that both versions share;
//! - `header`: the two kinds of headers, [`luks1`] and [`luks2`];
//! - `integrity`: sectors with tags;
//! - `container`: a header in use, and what is done with all of it: formats, backups, conversion;
//! - `keyslots`: key material, passphrases and tokens of a container;
//! - `reencryption`: a new key or cipher for the data, while they are in use;
//! - `mapping`: the data.

#![forbid(unsafe_code)]

mod container;
mod crypto;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod header;
mod integrity;
mod keyslots;
mod mapping;
mod model;
mod reencryption;

pub use container::backup::{BACKUP_LEN_MAX, read_backup, restore};
pub use container::flags::Flag;
pub use container::format::{ContainerFormat, format};
pub use container::{Container, UnlockedKey};
pub use error::{Error, Result};
pub use header::{Header, luks1, luks2, repair};
pub use integrity::{integrity_type, wipe};
pub use keyslots::{Argon2Cost, Kdf, KdfChoice, KdfKind, SlotChoice, Variant};
pub use mapping::{
    FailureGuard, Mapping, MappingFlags, MappingMeter, PlainEncryption, RequestMeter,
    RequestTotals, plain_key,
};
pub use model::{ContainerVersion, Integrity, KeyDigest, Keyslot, Priority, SECTOR, Segment};
pub use reencryption::{
    BothKeys, HeaderStage, Protection, ReencryptionChoice, ReencryptionEnd, ReencryptionLock,
    ReencryptionPace, ReencryptionProgress, begin_encryption, begin_encryption_in_place,
};
