//! The ciphers, by the numbers of `linux/fscrypt.h`.

use cipher::{NameCipher, NameMode, SectorCipher, SectorSpec};

/// A cipher for contents or names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptionMode {
    /// AES-256-XTS, for contents.
    Aes256Xts,
    /// AES-256-CBC-CTS, for names.
    Aes256Cts,
    /// AES-128-CBC-ESSIV, for contents.
    Aes128Cbc,
    /// AES-128-CBC-CTS, for names.
    Aes128Cts,
    /// Adiantum, for both.
    Adiantum,
    /// AES-256-HCTR2, for names.
    Aes256Hctr2,
    /// No encryption, for names (`LLCRYPT_MODE_NULL` of Lustre). Linux has no such policies.
    Null,
}

impl EncryptionMode {
    /// Every mode of Linux that is supported. SM4 (7 and 8) is not.
    pub const ALL: [EncryptionMode; 6] = [
        EncryptionMode::Aes256Xts,
        EncryptionMode::Aes256Cts,
        EncryptionMode::Aes128Cbc,
        EncryptionMode::Aes128Cts,
        EncryptionMode::Adiantum,
        EncryptionMode::Aes256Hctr2,
    ];

    /// The number of the mode.
    pub const fn number(self) -> u8 {
        match self {
            EncryptionMode::Null => 0,
            EncryptionMode::Aes256Xts => 1,
            EncryptionMode::Aes256Cts => 4,
            EncryptionMode::Aes128Cbc => 5,
            EncryptionMode::Aes128Cts => 6,
            EncryptionMode::Adiantum => 9,
            EncryptionMode::Aes256Hctr2 => 10,
        }
    }

    /// The mode of Linux with this number.
    pub fn from_number(number: u8) -> Option<EncryptionMode> {
        EncryptionMode::ALL
            .into_iter()
            .find(|mode| mode.number() == number)
    }

    /// The name that the tool `fscrypt` has for it.
    pub const fn name(self) -> &'static str {
        match self {
            EncryptionMode::Null => "NULL",
            EncryptionMode::Aes256Xts => "AES_256_XTS",
            EncryptionMode::Aes256Cts => "AES_256_CTS",
            EncryptionMode::Aes128Cbc => "AES_128_CBC",
            EncryptionMode::Aes128Cts => "AES_128_CTS",
            EncryptionMode::Adiantum => "Adiantum",
            EncryptionMode::Aes256Hctr2 => "AES_256_HCTR2",
        }
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<EncryptionMode> {
        EncryptionMode::ALL
            .into_iter()
            .find(|mode| mode.name() == name)
    }

    /// The length of its keys in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            EncryptionMode::Aes256Xts => 64,
            EncryptionMode::Aes256Cts | EncryptionMode::Adiantum | EncryptionMode::Aes256Hctr2 => {
                32
            }
            EncryptionMode::Aes128Cbc | EncryptionMode::Aes128Cts => 16,
            EncryptionMode::Null => 0,
        }
    }

    /// The pairs for contents and names that Linux allows: all of version 2, and those but HCTR2 of
    /// version 1. And as Lustre has it, names in clear.
    pub(super) const fn is_pair(
        contents: EncryptionMode,
        names: EncryptionMode,
        version: u8,
    ) -> bool {
        matches!(
            (contents, names),
            (EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts)
                | (EncryptionMode::Aes128Cbc, EncryptionMode::Aes128Cts)
                | (EncryptionMode::Adiantum, EncryptionMode::Adiantum)
                | (
                    EncryptionMode::Aes256Xts
                        | EncryptionMode::Aes128Cbc
                        | EncryptionMode::Adiantum,
                    EncryptionMode::Null
                )
        ) || (version == 2
            && matches!(
                (contents, names),
                (EncryptionMode::Aes256Xts, EncryptionMode::Aes256Hctr2)
            ))
    }
}

/// A mode with a key.
#[derive(Debug)]
pub(super) enum Cipher {
    /// Runs over many units in one call. The IV is a number.
    Sectors(SectorCipher),
    /// The IV has 16 bytes.
    Names(NameCipher),
    /// The IV has 32 bytes.
    Wide(NameCipher),
    /// Leaves all as it is.
    Null,
}

/// The IV of one unit: a number of 64 bits, and what follows it.
pub(super) type UnitIv = [u8; 32];

impl Cipher {
    pub(super) fn new(mode: EncryptionMode, key: &[u8]) -> cipher::Result<Cipher> {
        let sectors = |spec| SectorCipher::new(SectorSpec::parse(spec)?, key).map(Cipher::Sectors);
        match mode {
            EncryptionMode::Aes256Xts => sectors("aes-xts-plain64"),
            EncryptionMode::Aes128Cbc => sectors("aes-cbc-essiv:sha256"),
            EncryptionMode::Aes256Cts | EncryptionMode::Aes128Cts => {
                NameCipher::new(NameMode::CbcCts, key).map(Cipher::Names)
            }
            EncryptionMode::Adiantum => NameCipher::new(NameMode::Adiantum, key).map(Cipher::Wide),
            EncryptionMode::Aes256Hctr2 => NameCipher::new(NameMode::Hctr2, key).map(Cipher::Wide),
            EncryptionMode::Null => Ok(Cipher::Null),
        }
    }

    /// Encrypts units of `unit` bytes, of which the first has this IV. More than one only with
    /// [`Cipher::Sectors`].
    pub(super) fn encrypt(&self, iv: &UnitIv, unit: usize, data: &mut [u8]) -> cipher::Result<()> {
        match self {
            Cipher::Sectors(cipher) => cipher.encrypt(number(iv), 1, unit, data),
            Cipher::Names(cipher) => cipher.encrypt(&iv[..16], data),
            Cipher::Wide(cipher) => cipher.encrypt(iv, data),
            Cipher::Null => Ok(()),
        }
    }

    /// Decrypts units of `unit` bytes, of which the first has this IV. More than one only with
    /// [`Cipher::Sectors`].
    pub(super) fn decrypt(&self, iv: &UnitIv, unit: usize, data: &mut [u8]) -> cipher::Result<()> {
        match self {
            Cipher::Sectors(cipher) => cipher.decrypt(number(iv), 1, unit, data),
            Cipher::Names(cipher) => cipher.decrypt(&iv[..16], data),
            Cipher::Wide(cipher) => cipher.decrypt(iv, data),
            Cipher::Null => Ok(()),
        }
    }
}

fn number(iv: &UnitIv) -> u64 {
    u64::from_le_bytes(*iv.first_chunk().expect("32 bytes"))
}
