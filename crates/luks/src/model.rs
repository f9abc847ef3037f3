//! The contents of a header, in terms that both versions share.

use std::fmt;

use crate::keyslots::kdf::Kdf;

/// The sector that offsets are counted in, and that key material is encrypted by, in bytes.
pub const SECTOR: u64 = 512;

/// In how many stripes key material is split; no header has another number.
pub(crate) const STRIPES: u32 = 4000;

/// How long a salt is, in bytes.
pub(crate) const SALT_LEN: usize = 32;

/// The longest volume key, in bytes: two keys for XTS, and more for an integrity key.
pub(crate) const KEY_LEN_MAX: usize = 256;

/// When a key slot is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Only if it is asked for by its number.
    Ignore,
    /// After those that are preferred.
    Normal,
    /// Before all others.
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

    /// Its number in a header.
    pub(crate) fn number(self) -> u32 {
        match self {
            Priority::Ignore => 0,
            Priority::Normal => 1,
            Priority::Prefer => 2,
        }
    }

    /// As `luks dump` shows it.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Priority::Ignore => "ignored",
            Priority::Normal => "normal",
            Priority::Prefer => "preferred",
        }
    }
}

/// Where and how a passphrase protects a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyslot {
    /// Its number.
    pub id: u32,
    /// How long the key is that it protects, in bytes.
    pub key_len: usize,
    /// When it is tried.
    pub priority: Priority,
    /// How the passphrase becomes a key for the area.
    pub kdf: Kdf,
    /// What goes into that besides the passphrase.
    pub salt: [u8; SALT_LEN],
    /// The hash of the splitter.
    pub af_hash: String,
    /// How the area is encrypted, as `aes-xts-plain64`.
    pub cipher: String,
    /// The length of the key for that, in bytes.
    pub cipher_key_len: usize,
    /// Where the area is, in bytes.
    pub offset: u64,
    /// How much space the area has, in bytes.
    pub len: u64,
}

impl Keyslot {
    /// How many bytes of the area are in use.
    pub fn material_len(&self) -> u64 {
        material_len(self.key_len)
    }
}

/// How long the split form of a key of `key_len` bytes is, in whole sectors.
pub(crate) fn material_len(key_len: usize) -> u64 {
    (key_len as u64 * u64::from(STRIPES)).next_multiple_of(SECTOR)
}

/// By which a key is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDigest {
    /// Its number.
    pub id: u32,
    /// The hash of the PBKDF2 that makes it.
    pub hash: String,
    /// How often.
    pub iterations: u32,
    /// What goes into it besides the key.
    pub salt: [u8; SALT_LEN],
    /// What comes out.
    pub digest: Vec<u8>,
    /// The key slots that protect this key.
    pub keyslots: Vec<u32>,
    /// The segments that are encrypted with it.
    pub segments: Vec<u32>,
}

/// A part of the device that is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins, in bytes. Zero if the header is elsewhere.
    pub offset: u64,
    /// How long it is, in bytes; to the end of the device if not said.
    pub len: Option<u64>,
    /// What is added to the number of each sector, counted in 512 bytes, for its tweak.
    pub iv_offset: u64,
    /// How it is encrypted, as `aes-xts-plain64`. Empty for a part that is not encrypted, which only a
    /// re-encryption has.
    pub cipher: String,
    /// What is encrypted as one, in bytes: 512, 1024, 2048 or 4096.
    pub sector_size: u32,
    /// What authenticates each sector, if anything does.
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

    /// Whether it is not encrypted.
    pub(crate) fn is_linear(&self) -> bool {
        self.cipher.is_empty()
    }
}

/// What authenticates the sectors of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// As `hmac(sha256)`.
    pub kind: String,
    /// How long its part of the volume key is, in bytes; as is usual for the kind if not said.
    pub key_len: Option<usize>,
    /// What encrypts and what authenticates the journal, if anything does.
    pub journal: Option<String>,
}

impl Integrity {
    /// This kind, and everything else as usual.
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
