//! LUKS1 and LUKS2 containers, as cryptsetup and the Linux kernel have them.
//!
//! A container is a device with a header, and data behind it (or elsewhere) that is encrypted by
//! sectors. The header protects the key of the data (the volume key) with passphrases, one for each key
//! slot.
//!
//! - [`Header::read`] looks; [`Container::open`] is for who opens or changes a container.
//! - [`Container::unlock`] gives the volume key for a passphrase; `add_key` and others change who can.
//! - [`format()`] makes containers.
//! - [`Mapping`] is the data, decrypted, as a [`block::BlockDevice`].
//!
//! What a header says comes from whoever could write to the device: it is checked whole before any of
//! it is used, and never decides how much memory is taken or how long something takes beyond bounds.

#![forbid(unsafe_code)]

mod backup;
mod container;
mod convert;
mod crypto;
mod dump;
mod error;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod integrity;
mod kdf;
mod keyslot;
pub mod luks1;
pub mod luks2;
mod mapping;
mod model;
mod plain;
mod token;

pub use backup::{BACKUP_LEN_MAX, read_backup, restore};
pub use container::{Container, Header, SlotChoice, Unlocked, repair};
pub use error::{Error, Result};
pub use format::{Format, format};
pub use integrity::{integrity_type, wipe};
pub use kdf::{Argon2Cost, Kdf, KdfChoice, KdfKind, Variant};
pub use mapping::{Flags, Mapping, MappingMeter, Plain, Served, ServedTotals};
pub use model::{Digest, Integrity, Keyslot, Priority, SECTOR, Segment, Version};
pub use plain::plain_key;
