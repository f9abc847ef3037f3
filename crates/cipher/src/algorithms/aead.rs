//! The names of AEADs.

use std::fmt;

/// The nonces of RFC 4309, in bytes.
pub(crate) const SHORT_NONCE_LEN: usize = 11;

/// The nonces of gocryptfs for GCM, in bytes.
pub(crate) const LONG_NONCE_LEN: usize = 16;

/// An AEAD with a tag of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AeadAlgorithm {
    /// NIST SP 800-38D, with nonces of 12 bytes, or 16.
    Aes128Gcm,
    /// NIST SP 800-38D, with nonces of 12 bytes, or 16.
    Aes192Gcm,
    /// NIST SP 800-38D, with nonces of 12 bytes, or 16.
    Aes256Gcm,
    /// NIST SP 800-38C, with nonces of 12 bytes, or 11 as in RFC 4309.
    Aes128Ccm,
    /// NIST SP 800-38C, with nonces of 12 bytes, or 11 as in RFC 4309.
    Aes192Ccm,
    /// NIST SP 800-38C, with nonces of 12 bytes, or 11 as in RFC 4309.
    Aes256Ccm,
    /// RFC 8439.
    ChaCha20Poly1305,
    /// draft-irtf-cfrg-xchacha-03.
    XChaCha20Poly1305,
    /// RFC 5297 with AES-256, two keys, and the nonce after the associated data.
    Aes256Siv,
}

impl AeadAlgorithm {
    /// Every algorithm.
    pub const ALL: [AeadAlgorithm; 9] = [
        AeadAlgorithm::Aes128Gcm,
        AeadAlgorithm::Aes192Gcm,
        AeadAlgorithm::Aes256Gcm,
        AeadAlgorithm::Aes128Ccm,
        AeadAlgorithm::Aes192Ccm,
        AeadAlgorithm::Aes256Ccm,
        AeadAlgorithm::ChaCha20Poly1305,
        AeadAlgorithm::XChaCha20Poly1305,
        AeadAlgorithm::Aes256Siv,
    ];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            AeadAlgorithm::Aes128Gcm => "aes-128-gcm",
            AeadAlgorithm::Aes192Gcm => "aes-192-gcm",
            AeadAlgorithm::Aes256Gcm => "aes-256-gcm",
            AeadAlgorithm::Aes128Ccm => "aes-128-ccm",
            AeadAlgorithm::Aes192Ccm => "aes-192-ccm",
            AeadAlgorithm::Aes256Ccm => "aes-256-ccm",
            AeadAlgorithm::ChaCha20Poly1305 => "chacha20-poly1305",
            AeadAlgorithm::XChaCha20Poly1305 => "xchacha20-poly1305",
            AeadAlgorithm::Aes256Siv => "aes-256-siv",
        }
    }

    /// The length of its keys, in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            AeadAlgorithm::Aes128Gcm | AeadAlgorithm::Aes128Ccm => 16,
            AeadAlgorithm::Aes192Gcm | AeadAlgorithm::Aes192Ccm => 24,
            AeadAlgorithm::Aes256Siv => 64,
            _ => 32,
        }
    }

    /// The length of its nonces, in bytes; CCM takes 11 bytes as well, and GCM 16.
    pub const fn nonce_len(self) -> usize {
        match self {
            AeadAlgorithm::XChaCha20Poly1305 => 24,
            AeadAlgorithm::Aes256Siv => 16,
            _ => 12,
        }
    }

    pub(crate) fn is_ccm(self) -> bool {
        use AeadAlgorithm::{Aes128Ccm, Aes192Ccm, Aes256Ccm};
        matches!(self, Aes128Ccm | Aes192Ccm | Aes256Ccm)
    }

    pub(crate) fn is_gcm(self) -> bool {
        use AeadAlgorithm::{Aes128Gcm, Aes192Gcm, Aes256Gcm};
        matches!(self, Aes128Gcm | Aes192Gcm | Aes256Gcm)
    }
}

impl fmt::Display for AeadAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
