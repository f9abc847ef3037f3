//! The ciphers of contents.

use std::fmt;

use cipher::BlockCipher;

/// XTS with one of two block ciphers and three lengths of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm {
    cipher: BlockCipher,
    bits: u16,
}

impl Algorithm {
    /// Every algorithm, first that of keys whose algorithm nothing says.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::new(BlockCipher::Aes, 128),
        Algorithm::new(BlockCipher::Aes, 192),
        Algorithm::new(BlockCipher::Aes, 256),
        Algorithm::new(BlockCipher::Camellia, 128),
        Algorithm::new(BlockCipher::Camellia, 192),
        Algorithm::new(BlockCipher::Camellia, 256),
    ];

    /// The algorithm for a directory in which nothing is stored.
    pub(super) const NEW: Algorithm = Algorithm::new(BlockCipher::Aes, 256);

    const fn new(cipher: BlockCipher, bits: u16) -> Algorithm {
        Algorithm { cipher, bits }
    }

    /// The algorithm with this name, as `camellia256-xts` or `camellia256`.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        let name = name.strip_suffix("-xts").unwrap_or(name);
        let same = |algorithm: &Algorithm| algorithm.to_string().strip_suffix("-xts") == Some(name);
        Algorithm::ALL.into_iter().find(same)
    }

    /// The algorithm with these numbers in key chains.
    pub(super) fn from_numbers(id: u32, bits: u32) -> Option<Algorithm> {
        let same = |algorithm: &Algorithm| algorithm.numbers() == (id, bits);
        Algorithm::ALL.into_iter().find(same)
    }

    /// The numbers of the algorithm in key chains.
    pub(super) fn numbers(self) -> (u32, u32) {
        let id = if self.cipher == BlockCipher::Aes {
            4
        } else {
            5
        };
        (id, self.bits.into())
    }

    pub(super) fn cipher(self) -> BlockCipher {
        self.cipher
    }

    /// The length of each of its two keys, in bytes.
    pub(super) fn key_len(self) -> usize {
        usize::from(self.bits / 8)
    }
}

impl Default for Algorithm {
    fn default() -> Algorithm {
        Algorithm::ALL[0]
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}-xts", self.cipher.name(), self.bits)
    }
}
