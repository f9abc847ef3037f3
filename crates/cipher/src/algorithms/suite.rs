//! The names of the ciphers: what a person types, what the disk holds.
//!
//! A suite says how one record is sealed under a data key and a random 192-bit nonce. None of the AES suites uses the
//! data key with the AEAD directly. GCM and CCM take 96-bit nonces, too short to be drawn at random for ever under
//! one key. Each suite derives a key per record from the first half of the nonce. The second half is the AEAD's own
//! nonce (see the module `kdf`). XChaCha20-Poly1305 takes 192 bits by itself.

use std::fmt;

/// The algorithms by which a record is sealed. The numbers are on disk and never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Suite {
    /// AES-256-GCM with a derived key, exactly as C2SP XAES-256-GCM. The default.
    Xaes256Gcm = 1,
    /// AES-128-GCM (NIST SP 800-38D) with a derived key.
    Aes128Gcm = 2,
    /// AES-192-GCM (NIST SP 800-38D) with a derived key.
    Aes192Gcm = 3,
    /// AES-256-GCM (NIST SP 800-38D) with a derived key.
    Aes256Gcm = 4,
    /// AES-128-CCM (NIST SP 800-38C), 12-byte nonce, 16-byte tag, with a derived key.
    Aes128Ccm = 5,
    /// AES-192-CCM (NIST SP 800-38C), 12-byte nonce, 16-byte tag, with a derived key.
    Aes192Ccm = 6,
    /// AES-256-CCM (NIST SP 800-38C), 12-byte nonce, 16-byte tag, with a derived key.
    Aes256Ccm = 7,
    /// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), which takes the whole nonce itself.
    XChaCha20Poly1305 = 8,
}

impl Suite {
    /// The suite of `encryption=on`.
    pub const DEFAULT: Suite = Suite::Xaes256Gcm;

    /// Every suite, by ascending id.
    pub const ALL: [Suite; 8] = [
        Suite::Xaes256Gcm,
        Suite::Aes128Gcm,
        Suite::Aes192Gcm,
        Suite::Aes256Gcm,
        Suite::Aes128Ccm,
        Suite::Aes192Ccm,
        Suite::Aes256Ccm,
        Suite::XChaCha20Poly1305,
    ];

    /// The name in properties and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Suite::Xaes256Gcm => "xaes-256-gcm",
            Suite::Aes128Gcm => "aes-128-gcm",
            Suite::Aes192Gcm => "aes-192-gcm",
            Suite::Aes256Gcm => "aes-256-gcm",
            Suite::Aes128Ccm => "aes-128-ccm",
            Suite::Aes192Ccm => "aes-192-ccm",
            Suite::Aes256Ccm => "aes-256-ccm",
            Suite::XChaCha20Poly1305 => "xchacha20-poly1305",
        }
    }

    /// The suite with this name; `on` is the default suite.
    pub fn from_name(name: &str) -> Option<Suite> {
        if name == "on" {
            return Some(Suite::DEFAULT);
        }
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// The number on disk.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The suite with this number on disk.
    pub fn from_id(id: u8) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.id() == id)
    }

    /// The length of the data key: 16, 24 or 32 bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Suite::Aes128Gcm | Suite::Aes128Ccm => 16,
            Suite::Aes192Gcm | Suite::Aes192Ccm => 24,
            Suite::Xaes256Gcm | Suite::Aes256Gcm | Suite::Aes256Ccm | Suite::XChaCha20Poly1305 => {
                32
            }
        }
    }

    /// The longest record, in bytes.
    ///
    /// GCM: 2^39 - 256 bits (SP 800-38D, 5.2.1.1). CCM: a 12-byte nonce leaves 3 bytes for the
    /// length (SP 800-38C, A.1). ChaCha20: 2^32 - 1 blocks of 64 bytes (RFC 8439, 2.8), less one
    /// block, as the library counts.
    pub const fn max_len(self) -> u64 {
        match self {
            Suite::Xaes256Gcm | Suite::Aes128Gcm | Suite::Aes192Gcm | Suite::Aes256Gcm => {
                (1 << 36) - 32
            }
            Suite::Aes128Ccm | Suite::Aes192Ccm | Suite::Aes256Ccm => (1 << 24) - 1,
            Suite::XChaCha20Poly1305 => ((1 << 32) - 2) * 64,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids are on disk: this test is the golden copy.
    #[test]
    fn names_and_ids_are_stable() {
        let golden = [
            (1, "xaes-256-gcm", 32, (1u64 << 36) - 32),
            (2, "aes-128-gcm", 16, (1 << 36) - 32),
            (3, "aes-192-gcm", 24, (1 << 36) - 32),
            (4, "aes-256-gcm", 32, (1 << 36) - 32),
            (5, "aes-128-ccm", 16, 16_777_215),
            (6, "aes-192-ccm", 24, 16_777_215),
            (7, "aes-256-ccm", 32, 16_777_215),
            (8, "xchacha20-poly1305", 32, (1 << 38) - 128),
        ];
        assert_eq!(golden.len(), Suite::ALL.len());
        for ((id, name, key_len, max_len), suite) in golden.into_iter().zip(Suite::ALL) {
            assert_eq!(suite.id(), id);
            assert_eq!(suite.name(), name);
            assert_eq!(suite.to_string(), name);
            assert_eq!(suite.key_len(), key_len);
            assert_eq!(suite.max_len(), max_len);
            assert_eq!(Suite::from_id(id), Some(suite));
            assert_eq!(Suite::from_name(name), Some(suite));
        }
        assert_eq!(Suite::from_name("on"), Some(Suite::Xaes256Gcm));
        for id in (0..=255).filter(|id| !(1..=8).contains(id)) {
            assert_eq!(Suite::from_id(id), None);
        }
        for name in ["", "off", "AES-256-GCM", "aes-256", "aes-256-gcm "] {
            assert_eq!(Suite::from_name(name), None);
        }
    }
}
