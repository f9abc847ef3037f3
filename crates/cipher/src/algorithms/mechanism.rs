//! Mechanisms: the algorithms that a provider can have, with the names of `strongroom crypto`.

use std::fmt;

use super::{
    AeadAlgorithm, BlockCipher, Digest, NameMode, Provider, SectorMode, SectorSpec, Suite,
};

/// An algorithm or a mode that providers compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// Records of datasets.
    Record(Suite),
    /// Sectors of devices.
    Sector(BlockCipher, SectorMode),
    /// Names of files, for others' formats.
    Name(NameMode),
    /// Messages with nonces of the caller's.
    Message(AeadAlgorithm),
    /// A hash, and HMAC, HKDF and PBKDF2 with it.
    Digest(Digest),
    /// BLAKE3, plain, keyed and for derivation.
    Blake3,
    /// Argon2i and Argon2id.
    Argon2,
    /// scrypt.
    Scrypt,
    /// AES-CMAC.
    Cmac,
    /// AES key wrap.
    KeyWrap,
    /// VMAC-64 with AES-128.
    Vmac,
}

use Provider::{AwsLc, Libgcrypt, OpenSsl, Portable, Ring};

impl Mechanism {
    /// The number of mechanisms.
    pub const COUNT: usize = 62;

    /// Every mechanism, by its number.
    pub fn all() -> impl Iterator<Item = Mechanism> {
        let sectors = BlockCipher::ALL
            .into_iter()
            .flat_map(|cipher| SectorMode::ALL.map(|mode| Mechanism::Sector(cipher, mode)));
        let records = Suite::ALL.into_iter().map(Mechanism::Record);
        records
            .chain(sectors)
            .chain(NameMode::ALL.map(Mechanism::Name))
            .chain(AeadAlgorithm::ALL.map(Mechanism::Message))
            .chain(Digest::ALL.map(Mechanism::Digest))
            .chain([
                Mechanism::Blake3,
                Mechanism::Argon2,
                Mechanism::Scrypt,
                Mechanism::Cmac,
                Mechanism::KeyWrap,
                Mechanism::Vmac,
            ])
    }

    /// Returns the index of the mechanism in [`Mechanism::all`].
    pub(crate) const fn index(self) -> usize {
        match self {
            Mechanism::Record(suite) => suite as usize - 1,
            Mechanism::Sector(cipher, mode) => 8 + 5 * cipher as usize + mode as usize,
            Mechanism::Name(mode) => 28 + mode as usize,
            Mechanism::Message(algorithm) => 33 + algorithm as usize,
            Mechanism::Digest(digest) => 42 + digest as usize,
            Mechanism::Blake3 => 56,
            Mechanism::Argon2 => 57,
            Mechanism::Scrypt => 58,
            Mechanism::Cmac => 59,
            Mechanism::KeyWrap => 60,
            Mechanism::Vmac => 61,
        }
    }

    /// Returns the mechanism for the sectors of a device. That of Adiantum is the one of names.
    pub fn of_sectors(spec: SectorSpec) -> Mechanism {
        match spec.mode() {
            SectorMode::Adiantum12 => Mechanism::Name(NameMode::Adiantum),
            SectorMode::Adiantum20 => Mechanism::Name(NameMode::AdiantumXChaCha20),
            mode => Mechanism::Sector(spec.cipher(), mode),
        }
    }

    /// The mechanism with this name.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        Mechanism::all().find(|mechanism| mechanism.to_string() == name)
    }

    /// The lengths of the keys of ciphers that take several, in bytes: both keys of XTS together.
    pub fn key_lens(self) -> &'static [usize] {
        match self {
            Mechanism::Sector(_, mode) => mode.key_lens(),
            Mechanism::Name(mode) => mode.key_lens(),
            _ => &[],
        }
    }

    /// The providers that have it with any key, the first choice first. [`Mechanism::providers_with`] knows more.
    pub fn providers(self) -> &'static [Provider] {
        use AeadAlgorithm as Aead;
        match self {
            Mechanism::Record(Suite::Xaes256Gcm | Suite::Aes256Gcm | Suite::Aes128Gcm) => {
                &[Ring, AwsLc]
            }
            Mechanism::Record(_)
            | Mechanism::Scrypt
            | Mechanism::Cmac
            | Mechanism::KeyWrap
            | Mechanism::Vmac => &[AwsLc],
            Mechanism::Blake3 | Mechanism::Argon2 => &[Portable],
            Mechanism::Sector(BlockCipher::Aes, SectorMode::Lrw) => &[AwsLc, Portable],
            Mechanism::Sector(BlockCipher::Aes, _) => &[AwsLc, OpenSsl, Portable],
            Mechanism::Sector(BlockCipher::Camellia, SectorMode::Xts | SectorMode::Lrw) => {
                &[Portable]
            }
            Mechanism::Sector(BlockCipher::Camellia, _) => &[OpenSsl, Portable],
            Mechanism::Sector(BlockCipher::Twofish, _) => &[Libgcrypt, Portable],
            Mechanism::Sector(BlockCipher::Serpent, _) => &[Portable],
            Mechanism::Name(_) => &[AwsLc, Portable],
            Mechanism::Message(
                Aead::Aes128Gcm | Aead::Aes192Gcm | Aead::Aes256Gcm | Aead::ChaCha20Poly1305,
            ) => &[AwsLc, OpenSsl, Portable],
            Mechanism::Message(Aead::Aes256Siv) => &[Portable],
            Mechanism::Message(_) => &[AwsLc, Portable],
            Mechanism::Digest(Digest::Ripemd160 | Digest::Whirlpool) => &[Portable],
            Mechanism::Digest(
                Digest::Sha3_224 | Digest::Blake2b512 | Digest::Blake2s256 | Digest::Sm3,
            ) => &[OpenSsl, Portable],
            Mechanism::Digest(_) => &[AwsLc, OpenSsl, Portable],
        }
    }

    /// Returns the name that people use, where it is more than the name here.
    pub(crate) fn full_name(self) -> &'static str {
        match self {
            Mechanism::Record(suite) => message_name(suite.name()),
            Mechanism::Message(algorithm) => message_name(algorithm.name()),
            Mechanism::Sector(cipher, mode) => sector_name(cipher, mode),
            Mechanism::Name(NameMode::CbcCts) => "AES in CBC mode with ciphertext stealing",
            Mechanism::Name(NameMode::Hctr2) => "AES-HCTR2",
            Mechanism::Name(NameMode::Adiantum) => "Adiantum (XChaCha12 and AES-256)",
            Mechanism::Name(NameMode::AdiantumXChaCha20) => "Adiantum (XChaCha20 and AES-256)",
            Mechanism::Name(NameMode::Eme) => "AES in EME mode",
            Mechanism::Digest(Digest::Ripemd160) => "RIPEMD-160",
            Mechanism::Digest(Digest::Whirlpool) => "Whirlpool",
            Mechanism::Digest(Digest::Blake2b512) => "BLAKE2b-512",
            Mechanism::Digest(Digest::Blake2s256) => "BLAKE2s-256",
            Mechanism::Digest(Digest::Sm3) => "SM3",
            Mechanism::Digest(digest) => digest.name(),
            Mechanism::Blake3 => "BLAKE3",
            Mechanism::Argon2 => "Argon2",
            Mechanism::Scrypt => "scrypt",
            Mechanism::Cmac => "AES-CMAC",
            Mechanism::KeyWrap => "AES key wrap",
            Mechanism::Vmac => "VMAC-64",
        }
    }

    /// Returns whether a publication of NIST that FIPS 140-3 approves describes it.
    pub fn is_approved(self) -> bool {
        match self {
            Mechanism::Record(suite) => suite != Suite::XChaCha20Poly1305,
            Mechanism::Sector(cipher, mode) => {
                cipher == BlockCipher::Aes && mode != SectorMode::Lrw
            }
            Mechanism::Name(mode) => mode == NameMode::CbcCts,
            Mechanism::Message(algorithm) => !matches!(
                algorithm,
                AeadAlgorithm::ChaCha20Poly1305
                    | AeadAlgorithm::XChaCha20Poly1305
                    | AeadAlgorithm::Aes256Siv
            ),
            Mechanism::Digest(digest) => !matches!(
                digest,
                Digest::Ripemd160
                    | Digest::Whirlpool
                    | Digest::Blake2b512
                    | Digest::Blake2s256
                    | Digest::Sm3
            ),
            Mechanism::Blake3 | Mechanism::Argon2 | Mechanism::Scrypt | Mechanism::Vmac => false,
            Mechanism::Cmac | Mechanism::KeyWrap => true,
        }
    }
}

fn message_name(name: &'static str) -> &'static str {
    match name {
        "chacha20-poly1305" => "ChaCha20-Poly1305",
        "xchacha20-poly1305" => "XChaCha20-Poly1305",
        "aes-256-siv" => "AES-SIV",
        approved => approved,
    }
}

fn sector_name(cipher: BlockCipher, mode: SectorMode) -> &'static str {
    use SectorMode::{Adiantum12, Adiantum20, Cbc, Ctr, Ecb, Lrw, Xts};
    match (cipher, mode) {
        (BlockCipher::Aes, Xts) => "AES in XTS mode",
        (BlockCipher::Aes, Cbc) => "AES in CBC mode",
        (BlockCipher::Aes, Ecb) => "AES in ECB mode",
        (BlockCipher::Aes, Ctr) => "AES in CTR mode",
        (BlockCipher::Aes, Lrw) => "AES in LRW mode",
        (BlockCipher::Camellia, Lrw) => "Camellia in LRW mode",
        (BlockCipher::Serpent, Lrw) => "Serpent in LRW mode",
        (BlockCipher::Twofish, Lrw) => "Twofish in LRW mode",
        (_, Adiantum12 | Adiantum20) => "Adiantum",
        (BlockCipher::Camellia, Xts) => "Camellia in XTS mode",
        (BlockCipher::Camellia, Cbc) => "Camellia in CBC mode",
        (BlockCipher::Camellia, Ecb) => "Camellia in ECB mode",
        (BlockCipher::Camellia, Ctr) => "Camellia in CTR mode",
        (BlockCipher::Serpent, Xts) => "Serpent in XTS mode",
        (BlockCipher::Serpent, Cbc) => "Serpent in CBC mode",
        (BlockCipher::Serpent, Ecb) => "Serpent in ECB mode",
        (BlockCipher::Serpent, Ctr) => "Serpent in CTR mode",
        (BlockCipher::Twofish, Xts) => "Twofish in XTS mode",
        (BlockCipher::Twofish, Cbc) => "Twofish in CBC mode",
        (BlockCipher::Twofish, Ecb) => "Twofish in ECB mode",
        (BlockCipher::Twofish, Ctr) => "Twofish in CTR mode",
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mechanism::Record(suite) => write!(f, "record-{suite}"),
            Mechanism::Sector(cipher, mode) => write!(f, "{}-{}", cipher.name(), mode.name()),
            Mechanism::Name(mode) => write!(f, "{mode}"),
            Mechanism::Message(algorithm) => write!(f, "{algorithm}"),
            Mechanism::Digest(digest) => write!(f, "{digest}"),
            Mechanism::Blake3 => f.write_str("blake3"),
            Mechanism::Argon2 => f.write_str("argon2"),
            Mechanism::Scrypt => f.write_str("scrypt"),
            Mechanism::Cmac => f.write_str("aes-cmac"),
            Mechanism::KeyWrap => f.write_str("aes-key-wrap"),
            Mechanism::Vmac => f.write_str("vmac-64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let all: Vec<Mechanism> = Mechanism::all().collect();
        assert_eq!(all.len(), Mechanism::COUNT);
        for (index, mechanism) in all.iter().enumerate() {
            assert_eq!(mechanism.index(), index, "{mechanism}");
            assert_eq!(
                Mechanism::from_name(&mechanism.to_string()),
                Some(*mechanism)
            );
        }
        let names: HashSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(Mechanism::from_name("aes"), None);
    }
}
