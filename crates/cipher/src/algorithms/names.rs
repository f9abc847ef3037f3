//! The names of ciphers for names.

use std::fmt;

/// A length-preserving cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameMode {
    /// AES-CBC with ciphertext stealing, the last two blocks always exchanged (NIST SP 800-38A,
    /// addendum, CS3; RFC 3962). Keys of 16, 24 or 32 bytes, tweaks (IVs) of 16.
    CbcCts,
    /// HCTR2 with AES ("Length-preserving encryption with HCTR2", 2021). Keys of 16, 24 or 32 bytes,
    /// tweaks of any length.
    Hctr2,
    /// Adiantum with XChaCha12 and AES-256 ("Adiantum: length-preserving encryption for entry-level
    /// processors", 2018). Keys and tweaks of 32 bytes.
    Adiantum,
    /// Adiantum with XChaCha20 and AES-256.
    AdiantumXChaCha20,
    /// EME with AES ("A parallelizable enciphering mode", 2003), of whole blocks of 16 bytes, up to 2048
    /// bytes. Keys of 16, 24 or 32 bytes, tweaks of 16.
    Eme,
}

impl NameMode {
    /// Every mode.
    pub const ALL: [NameMode; 5] = [
        NameMode::CbcCts,
        NameMode::Hctr2,
        NameMode::Adiantum,
        NameMode::AdiantumXChaCha20,
        NameMode::Eme,
    ];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            NameMode::CbcCts => "aes-cbc-cts",
            NameMode::Hctr2 => "aes-hctr2",
            NameMode::Adiantum => "adiantum",
            NameMode::AdiantumXChaCha20 => "adiantum-xchacha20",
            NameMode::Eme => "aes-eme",
        }
    }

    /// The lengths of the keys that it takes, in bytes.
    pub const fn key_lens(self) -> &'static [usize] {
        match self {
            NameMode::CbcCts | NameMode::Hctr2 | NameMode::Eme => &[16, 24, 32],
            NameMode::Adiantum | NameMode::AdiantumXChaCha20 => &[32],
        }
    }

    /// The length of its tweaks in bytes, if it takes one length only.
    pub const fn tweak_len(self) -> Option<usize> {
        match self {
            NameMode::CbcCts | NameMode::Eme => Some(16),
            NameMode::Hctr2 => None,
            NameMode::Adiantum | NameMode::AdiantumXChaCha20 => Some(32),
        }
    }

    /// Returns whether the mode takes data of this length, in bytes.
    pub const fn takes(self, len: usize) -> bool {
        match self {
            NameMode::Eme => len >= 16 && len.is_multiple_of(16) && len <= 2048,
            _ => len >= 16,
        }
    }
}

impl fmt::Display for NameMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
