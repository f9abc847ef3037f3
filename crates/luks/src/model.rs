//! The contents of a header, in terms that both versions share.

use std::fmt;

use crate::keyslots::kdf::Kdf;

/// The sector that offsets are counted in, and that key material is encrypted by, in bytes.
pub const SECTOR: u64 = 512;

/// The number of stripes of key material; no header has another number.
pub(crate) const STRIPES: u32 = 4000;

/// The length of a salt, in bytes.
pub(crate) const SALT_LEN: usize = 32;

/// The longest volume key, in bytes: two keys for XTS, and more for an integrity key.
pub(crate) const KEY_LEN_MAX: usize = 256;

/// The order in which key slots are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The slot is tried only if the caller names it.
    Ignore,
    /// The slot is tried after the preferred ones.
    Normal,
    /// The slot is tried before all others.
    Prefer,
}

impl Priority {
    /// The priority that a header gives by this number.
    pub(crate) fn from_number(number: u32) -> Option<Priority> {
        match number {
            0 => Some(Priority::Ignore),
            1 => Some(Priority::Normal),
            2 => Some(Priority::Prefer),
            _ => None,
        }
    }

    /// Returns the number that stands for it in a header.
    pub(crate) fn number(self) -> u32 {
        match self {
            Priority::Ignore => 0,
            Priority::Normal => 1,
            Priority::Prefer => 2,
        }
    }

    /// Returns the word of `luks dump` for it.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Priority::Ignore => "ignored",
            Priority::Normal => "normal",
            Priority::Prefer => "preferred",
        }
    }
}

/// A key slot: a key, the passphrase that protects it, and the area with the key material.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyslot {
    /// The number of the slot.
    pub id: u32,
    /// The length of the key in the slot, in bytes.
    pub key_len: usize,
    /// The order in which the slot is tried.
    pub priority: Priority,
    /// The function that makes a key for the area out of the passphrase.
    pub kdf: Kdf,
    /// The salt of that function.
    pub salt: [u8; SALT_LEN],
    /// The hash of the splitter.
    pub af_hash: String,
    /// The encryption of the area, for example `aes-xts-plain64`.
    pub cipher: String,
    /// The length of the key for that, in bytes.
    pub cipher_key_len: usize,
    /// The address of the area on the device, in bytes.
    pub offset: u64,
    /// The length of the area, in bytes.
    pub len: u64,
}

impl Keyslot {
    /// Returns the number of bytes of the area that are in use.
    pub fn material_len(&self) -> u64 {
        material_len(self.key_len)
    }
}

/// Returns the length of the split form of a key of `key_len` bytes, in whole sectors.
pub(crate) fn material_len(key_len: usize) -> u64 {
    (key_len as u64 * u64::from(STRIPES)).next_multiple_of(SECTOR)
}

/// The digest by which a key is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDigest {
    /// The number of the digest.
    pub id: u32,
    /// The hash of the PBKDF2 that makes it.
    pub hash: String,
    /// The number of iterations.
    pub iterations: u32,
    /// The salt of the PBKDF2.
    pub salt: [u8; SALT_LEN],
    /// The output of the PBKDF2.
    pub digest: Vec<u8>,
    /// The key slots that protect this key.
    pub keyslots: Vec<u32>,
    /// The segments that are encrypted with it.
    pub segments: Vec<u32>,
}

/// A part of the device that is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The address of the first byte, in bytes. Zero if the
    /// header is elsewhere.
    pub offset: u64,
    /// The length, in bytes. `None`: the segment ends with the device.
    pub len: Option<u64>,
    /// The number that is added to the number of each sector, in units of 512 bytes, for its tweak.
    pub iv_offset: u64,
    /// The encryption, for example `aes-xts-plain64`. Empty for data that is not encrypted, which only a re-encryption
    /// has.
    pub cipher: String,
    /// The length of a sector, in bytes: 512, 1024, 2048 or 4096.
    pub sector_size: u32,
    /// The authentication of the sectors; `None` without one.
    pub integrity: Option<Integrity>,
}

impl Segment {
    /// A part that is not encrypted.
    pub(crate) fn linear(offset: u64, len: Option<u64>) -> Segment {
        Segment {
            offset,
            len,
            iv_offset: 0,
            cipher: String::new(),
            sector_size: SECTOR as u32,
            integrity: None,
        }
    }

    /// Returns whether the segment is not encrypted.
    pub(crate) fn is_linear(&self) -> bool {
        self.cipher.is_empty()
    }
}

/// The authentication of the sectors of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// The algorithm, for example `hmac(sha256)`.
    pub kind: String,
    /// The length of its part of the volume key, in bytes. `None`: the usual length of the algorithm.
    pub key_len: Option<usize>,
    /// The algorithms that encrypt and authenticate the journal; `None` without any.
    pub journal: Option<String>,
}

impl Integrity {
    /// Returns this algorithm with a key of the usual length, and without a protected journal.
    pub(crate) fn new(kind: &str) -> Integrity {
        Integrity {
            kind: kind.into(),
            key_len: None,
            journal: None,
        }
    }
}

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerVersion {
    /// LUKS1: eight slots with PBKDF2, one copy of the header.
    V1,
    /// LUKS2: 32 slots with Argon2, two copies of the header.
    V2,
}

impl fmt::Display for ContainerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ContainerVersion::V1 => "LUKS1",
            ContainerVersion::V2 => "LUKS2",
        })
    }
}
