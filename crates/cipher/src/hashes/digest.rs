//! The hashes of others' formats, plain, in HMAC and in PBKDF2.
//!
//! What this project hashes for itself is BLAKE3, in its own modes ([`crate::mac`]). These are for
//! LUKS, fscrypt and others, which name their hash.

use std::num::NonZeroU32;

use aws_lc_rs::{digest as aws_digest, hmac as aws_hmac, pbkdf2 as aws_pbkdf2};
use hmac::digest::Digest as _;
use hmac::{KeyInit, Mac, SimpleHmac};

use crate::provider::policy;
use crate::{Digest, DigestOutput, Error, Mechanism, Provider, Result};

/// Does the same with the type of RustCrypto that implements a digest.
macro_rules! with_portable {
    ($digest:expr, $hash:ident => $body:expr) => {
        match $digest {
            Digest::Sha1 => with_portable!(sha1::Sha1, $hash, $body),
            Digest::Sha224 => with_portable!(sha2::Sha224, $hash, $body),
            Digest::Sha256 => with_portable!(sha2::Sha256, $hash, $body),
            Digest::Sha384 => with_portable!(sha2::Sha384, $hash, $body),
            Digest::Sha512 => with_portable!(sha2::Sha512, $hash, $body),
            Digest::Sha3_224 => with_portable!(sha3::Sha3_224, $hash, $body),
            Digest::Sha3_256 => with_portable!(sha3::Sha3_256, $hash, $body),
            Digest::Sha3_384 => with_portable!(sha3::Sha3_384, $hash, $body),
            Digest::Sha3_512 => with_portable!(sha3::Sha3_512, $hash, $body),
            Digest::Ripemd160 => with_portable!(ripemd::Ripemd160, $hash, $body),
            Digest::Whirlpool => with_portable!(whirlpool::Whirlpool, $hash, $body),
            Digest::Blake2b512 => with_portable!(blake2::Blake2b512, $hash, $body),
            Digest::Blake2s256 => with_portable!(blake2::Blake2s256, $hash, $body),
            Digest::Sm3 => with_portable!(sm3::Sm3, $hash, $body),
        }
    };
    ($type:ty, $hash:ident, $body:expr) => {{
        type $hash = $type;
        $body
    }};
}

impl Digest {
    /// The hash of the parts, one after the other (without their lengths).
    ///
    /// As a hash this is a checksum, which FIPS mode leaves alone: [`Digest::check`] is for where it
    /// protects something.
    pub fn hash(self, parts: &[&[u8]]) -> DigestOutput {
        let provider = self.provider();
        self.hash_by(provider, parts)
            .unwrap_or_else(|_| self.hash_portable(parts))
    }

    /// HMAC (RFC 2104) of the parts, one after the other. Compare MACs with [`crate::eq`].
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> DigestOutput {
        let provider = self.provider();
        self.hmac_by(provider, key, parts)
            .unwrap_or_else(|_| self.hmac_portable(key, parts))
    }

    /// Checks that the policy of the process lets this hash protect anything.
    ///
    /// # Errors
    /// [`Error::NotApproved`] in FIPS mode.
    pub fn check(self) -> Result<()> {
        policy::provider(Mechanism::Digest(self)).map(drop)
    }

    fn provider(self) -> Provider {
        policy::provider(Mechanism::Digest(self)).unwrap_or(Provider::Portable)
    }

    /// PBKDF2 (RFC 8018, 5.2) with HMAC of this hash.
    pub(crate) fn pbkdf2(
        self,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
        key: &mut [u8],
    ) {
        match self.aws_lc_pbkdf2() {
            Some(algorithm) if self.provider() == Provider::AwsLc => {
                aws_pbkdf2::derive(algorithm, iterations, salt, password, key);
            }
            _ => self.pbkdf2_portable(password, salt, iterations, key),
        }
    }

    /// HKDF (RFC 5869): a key for `info` (its parts, one after the other) from the secret `material`.
    ///
    /// # Errors
    /// [`Error::PasswordHash`] for more than 255 outputs of the hash.
    pub fn hkdf(self, salt: &[u8], material: &[u8], info: &[&[u8]], key: &mut [u8]) -> Result<()> {
        if key.len() > 255 * self.output_len() {
            return Err(Error::PasswordHash("HKDF gives no more than 255 hashes"));
        }
        let extracted = self.hmac(salt, &[material]);
        let mut before: Option<DigestOutput> = None;
        for (number, piece) in (1u8..=255).zip(key.chunks_mut(self.output_len())) {
            let chained = before.as_deref().unwrap_or_default();
            let parts: Vec<&[u8]> = std::iter::once(chained)
                .chain(info.iter().copied())
                .chain([std::slice::from_ref(&number)])
                .collect();
            let block = self.hmac(&extracted, &parts);
            piece.copy_from_slice(&block[..piece.len()]);
            before = Some(block);
        }
        Ok(())
    }

    /// The variant of [`Digest::hash`] with this provider.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn hash_by(self, provider: Provider, parts: &[&[u8]]) -> Result<DigestOutput> {
        match (provider, self.aws_lc()) {
            (Provider::Portable, _) => Ok(self.hash_portable(parts)),
            (Provider::AwsLc, Some(algorithm)) => Ok(aws_hash(algorithm, parts)),
            (Provider::OpenSsl, _) => crate::provider::openssl::hash(self, parts),
            (Provider::AwsLc, None) | (Provider::Ring | Provider::Libgcrypt, _) => {
                Err(Error::Unsupported { provider })
            }
        }
    }

    /// The variant of [`Digest::hmac`] with this provider.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn hmac_by(self, provider: Provider, key: &[u8], parts: &[&[u8]]) -> Result<DigestOutput> {
        match (provider, self.aws_lc_hmac()) {
            (Provider::Portable, _) => Ok(self.hmac_portable(key, parts)),
            (Provider::AwsLc, Some(algorithm)) => Ok(aws_mac(algorithm, key, parts)),
            (Provider::OpenSsl, _) => crate::provider::openssl::hmac(self, key, parts),
            (Provider::AwsLc, None) | (Provider::Ring | Provider::Libgcrypt, _) => {
                Err(Error::Unsupported { provider })
            }
        }
    }

    fn hash_portable(self, parts: &[&[u8]]) -> DigestOutput {
        with_portable!(self, Hash => {
            let mut hash = Hash::new();
            parts.iter().for_each(|part| hash.update(part));
            DigestOutput::new(&hash.finalize())
        })
    }

    fn hmac_portable(self, key: &[u8], parts: &[&[u8]]) -> DigestOutput {
        with_portable!(self, Hash => {
            let mut mac = SimpleHmac::<Hash>::new_from_slice(key).expect("any length");
            parts.iter().for_each(|part| mac.update(part));
            DigestOutput::new(&mac.finalize().into_bytes())
        })
    }

    pub(crate) fn pbkdf2_portable(
        self,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
        key: &mut [u8],
    ) {
        with_portable!(self, Hash => {
            pbkdf2::pbkdf2::<SimpleHmac<Hash>>(password, salt, iterations.get(), key)
                .expect("any length of the password")
        });
    }

    fn aws_lc(self) -> Option<&'static aws_digest::Algorithm> {
        match self {
            Digest::Sha1 => Some(&aws_digest::SHA1_FOR_LEGACY_USE_ONLY),
            Digest::Sha224 => Some(&aws_digest::SHA224),
            Digest::Sha256 => Some(&aws_digest::SHA256),
            Digest::Sha384 => Some(&aws_digest::SHA384),
            Digest::Sha512 => Some(&aws_digest::SHA512),
            Digest::Sha3_256 => Some(&aws_digest::SHA3_256),
            Digest::Sha3_384 => Some(&aws_digest::SHA3_384),
            Digest::Sha3_512 => Some(&aws_digest::SHA3_512),
            _ => None,
        }
    }

    fn aws_lc_hmac(self) -> Option<aws_hmac::Algorithm> {
        match self {
            Digest::Sha1 => Some(aws_hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            Digest::Sha224 => Some(aws_hmac::HMAC_SHA224),
            Digest::Sha256 => Some(aws_hmac::HMAC_SHA256),
            Digest::Sha384 => Some(aws_hmac::HMAC_SHA384),
            Digest::Sha512 => Some(aws_hmac::HMAC_SHA512),
            _ => None,
        }
    }

    pub(crate) fn aws_lc_pbkdf2(self) -> Option<aws_pbkdf2::Algorithm> {
        match self {
            Digest::Sha1 => Some(aws_pbkdf2::PBKDF2_HMAC_SHA1),
            Digest::Sha256 => Some(aws_pbkdf2::PBKDF2_HMAC_SHA256),
            Digest::Sha384 => Some(aws_pbkdf2::PBKDF2_HMAC_SHA384),
            Digest::Sha512 => Some(aws_pbkdf2::PBKDF2_HMAC_SHA512),
            _ => None,
        }
    }
}

fn aws_hash(algorithm: &'static aws_digest::Algorithm, parts: &[&[u8]]) -> DigestOutput {
    let mut context = aws_digest::Context::new(algorithm);
    parts.iter().for_each(|part| context.update(part));
    DigestOutput::new(context.finish().as_ref())
}

fn aws_mac(algorithm: aws_hmac::Algorithm, key: &[u8], parts: &[&[u8]]) -> DigestOutput {
    let mut context = aws_hmac::Context::with_key(&aws_hmac::Key::new(algorithm, key));
    parts.iter().for_each(|part| context.update(part));
    DigestOutput::new(context.sign().as_ref())
}
