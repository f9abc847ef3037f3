//! The names of hashes, and what a hash gives.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroize;

/// A hash. The names are those of cryptsetup and the Linux kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// SHA-1 (FIPS 180-4), for what is old. Collisions are known.
    Sha1,
    /// SHA-224 (FIPS 180-4).
    Sha224,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-384 (FIPS 180-4).
    Sha384,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHA3-224 (FIPS 202).
    Sha3_224,
    /// SHA3-256 (FIPS 202).
    Sha3_256,
    /// SHA3-384 (FIPS 202).
    Sha3_384,
    /// SHA3-512 (FIPS 202).
    Sha3_512,
    /// RIPEMD-160.
    Ripemd160,
    /// Whirlpool (ISO/IEC 10118-3).
    Whirlpool,
    /// BLAKE2b (RFC 7693), 512 bits.
    Blake2b512,
    /// BLAKE2s (RFC 7693), 256 bits.
    Blake2s256,
    /// SM3 (GB/T 32905).
    Sm3,
}

/// The output of a hash, which may be a key: overwritten on drop.
#[derive(Clone)]
pub struct DigestOutput {
    bytes: [u8; Digest::LEN_MAX],
    len: usize,
}

impl Digest {
    /// Every hash.
    pub const ALL: [Digest; 14] = [
        Digest::Sha1,
        Digest::Sha224,
        Digest::Sha256,
        Digest::Sha384,
        Digest::Sha512,
        Digest::Sha3_224,
        Digest::Sha3_256,
        Digest::Sha3_384,
        Digest::Sha3_512,
        Digest::Ripemd160,
        Digest::Whirlpool,
        Digest::Blake2b512,
        Digest::Blake2s256,
        Digest::Sm3,
    ];

    /// The length of the longest output, in bytes.
    pub const LEN_MAX: usize = 64;

    /// The name in LUKS headers and cipher names.
    pub const fn name(self) -> &'static str {
        match self {
            Digest::Sha1 => "sha1",
            Digest::Sha224 => "sha224",
            Digest::Sha256 => "sha256",
            Digest::Sha384 => "sha384",
            Digest::Sha512 => "sha512",
            Digest::Sha3_224 => "sha3-224",
            Digest::Sha3_256 => "sha3-256",
            Digest::Sha3_384 => "sha3-384",
            Digest::Sha3_512 => "sha3-512",
            Digest::Ripemd160 => "ripemd160",
            Digest::Whirlpool => "whirlpool",
            Digest::Blake2b512 => "blake2b-512",
            Digest::Blake2s256 => "blake2s-256",
            Digest::Sm3 => "sm3",
        }
    }

    /// The hash with this name.
    pub fn from_name(name: &str) -> Option<Digest> {
        Digest::ALL.into_iter().find(|digest| digest.name() == name)
    }

    /// The length of its output, in bytes.
    pub const fn output_len(self) -> usize {
        match self {
            Digest::Sha1 | Digest::Ripemd160 => 20,
            Digest::Sha224 | Digest::Sha3_224 => 28,
            Digest::Sha256 | Digest::Sha3_256 | Digest::Blake2s256 | Digest::Sm3 => 32,
            Digest::Sha384 | Digest::Sha3_384 => 48,
            Digest::Sha512 | Digest::Sha3_512 | Digest::Whirlpool | Digest::Blake2b512 => 64,
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DigestOutput {
    pub(crate) fn new(output: &[u8]) -> DigestOutput {
        let mut bytes = [0; Digest::LEN_MAX];
        bytes[..output.len()].copy_from_slice(output);
        DigestOutput {
            bytes,
            len: output.len(),
        }
    }
}

impl Deref for DigestOutput {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for DigestOutput {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl fmt::Debug for DigestOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output([redacted])")
    }
}
