//! Authenticated encryption of single messages, with nonces of the caller's.
//!
//! Records of datasets have [`crate::RecordCipher`], which takes care of nonces; this is for others'
//! formats. A message lies in one place, in several ([`AeadCipher::seal_pieces`]), or comes from a
//! file ([`AeadCipher::open_stream`]). In one place it takes the library one pass and no copy.

mod portable;
mod stream;

use std::fmt;

use zeroize::Zeroizing;

use crate::algorithms::{LONG_NONCE_LEN, SHORT_NONCE_LEN};
use crate::ffi::{Aead, AeadBuffers, Ccm, Direction, GcmStream};
use crate::provider::policy;
use crate::{AeadAlgorithm, Error, Mechanism, Provider, Result, TAG_LEN, pieces};

/// The form in which AWS-LC computes it.
enum AeadEngine {
    Whole(Aead),
    Ccm(Ccm),
}

impl AeadEngine {
    /// None for what it does not have.
    fn of(algorithm: AeadAlgorithm) -> Option<AeadEngine> {
        Some(match algorithm {
            AeadAlgorithm::Aes128Gcm => AeadEngine::Whole(Aead::Aes128Gcm),
            AeadAlgorithm::Aes192Gcm => AeadEngine::Whole(Aead::Aes192Gcm),
            AeadAlgorithm::Aes256Gcm => AeadEngine::Whole(Aead::Aes256Gcm),
            AeadAlgorithm::Aes128Ccm => AeadEngine::Ccm(Ccm::Aes128),
            AeadAlgorithm::Aes192Ccm => AeadEngine::Ccm(Ccm::Aes192),
            AeadAlgorithm::Aes256Ccm => AeadEngine::Ccm(Ccm::Aes256),
            AeadAlgorithm::ChaCha20Poly1305 => AeadEngine::Whole(Aead::ChaCha20Poly1305),
            AeadAlgorithm::XChaCha20Poly1305 => AeadEngine::Whole(Aead::XChaCha20Poly1305),
            AeadAlgorithm::Aes256Siv => return None,
        })
    }
}

/// A key for messages. It is overwritten on drop.
pub struct AeadCipher {
    algorithm: AeadAlgorithm,
    provider: Provider,
    key: Zeroizing<Vec<u8>>,
}

impl AeadCipher {
    /// A key for `algorithm`, with the provider that [`Policy`](crate::Policy) names.
    ///
    /// # Errors
    /// [`Error::NotApproved`] and [`Error::Disabled`] of the policy; [`Error::AeadKey`] unless the key
    /// has [`AeadAlgorithm::key_len`] bytes.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Result<AeadCipher> {
        let provider = policy::provider(Mechanism::Message(algorithm))?;
        AeadCipher::with_provider(provider, algorithm, key)
    }

    /// The variant of [`AeadCipher::new`] with this provider.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the provider does not have the algorithm; [`Error::AeadKey`].
    pub fn with_provider(
        provider: Provider,
        algorithm: AeadAlgorithm,
        key: &[u8],
    ) -> Result<AeadCipher> {
        let is_there = Mechanism::Message(algorithm)
            .providers()
            .contains(&provider);
        if !is_there || !provider.is_built() {
            return Err(Error::Unsupported { provider });
        }
        if key.len() != algorithm.key_len() {
            return Err(Error::AeadKey { algorithm });
        }
        Ok(AeadCipher {
            algorithm,
            provider,
            key: Zeroizing::new(key.to_vec()),
        })
    }

    /// Seals `data` where it is, and returns the tag.
    ///
    /// # Errors
    /// [`Error::AeadKey`] for a nonce of another length; [`Error::Library`] for more data than the
    /// algorithm protects. `data` is then as it was or zeroed.
    pub fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN]> {
        self.check(nonce)?;
        match (self.provider, AeadEngine::of(self.algorithm)) {
            (Provider::Portable, _) | (_, None) => {
                portable::seal(self.algorithm, &self.key, nonce, aad, data)
            }
            (Provider::OpenSsl, _) => {
                crate::provider::openssl::seal(self.algorithm, &self.key, nonce, aad, data)
            }
            (_, Some(AeadEngine::Whole(aead))) => {
                aead.seal(&self.key, nonce, aad, AeadBuffers::InPlace(data))
            }
            (_, Some(AeadEngine::Ccm(ccm))) => {
                let mut tag = [0; TAG_LEN];
                ccm.seal(&self.key, nonce, aad, AeadBuffers::InPlace(data), &mut tag)?;
                Ok(tag)
            }
        }
    }

    /// Opens `data` where it is; it is zeroed on failure.
    ///
    /// # Errors
    /// [`Error::Unauthentic`]; [`Error::AeadKey`] for a nonce of another length.
    pub fn open(
        &self,
        nonce: &[u8],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<()> {
        self.check(nonce)?;
        let key = &self.key;
        match (self.provider, AeadEngine::of(self.algorithm)) {
            (Provider::Portable, _) | (_, None) => {
                let opened = portable::open(self.algorithm, key, nonce, aad, data, tag);
                opened.inspect_err(|_| data.fill(0))
            }
            (Provider::OpenSsl, _) => {
                let opened =
                    crate::provider::openssl::open(self.algorithm, key, nonce, aad, data, tag);
                opened.inspect_err(|_| data.fill(0))
            }
            (_, Some(AeadEngine::Whole(aead))) => {
                aead.open(key, nonce, aad, tag, AeadBuffers::InPlace(data))
            }
            (_, Some(AeadEngine::Ccm(ccm))) => {
                ccm.open(key, nonce, aad, tag, AeadBuffers::InPlace(data))
            }
        }
    }

    /// Seals a message that lies in several places, of any length and alignment, where they are.
    ///
    /// A single piece is [sealed](AeadCipher::seal) as it is, and GCM of AWS-LC goes from piece to piece. The others are
    /// copied together, and back.
    ///
    /// # Errors
    /// As [`AeadCipher::seal`].
    pub fn seal_pieces(
        &self,
        nonce: &[u8],
        aad: &[u8],
        pieces: &mut [&mut [u8]],
    ) -> Result<[u8; TAG_LEN]> {
        self.check(nonce)?;
        if !self.has_pieces() || pieces::alone(pieces).is_some() {
            return pieces::whole(pieces, |data| self.seal(nonce, aad, data));
        }
        let mut stream = GcmStream::new(&self.key, nonce, aad, Direction::Encrypt)?;
        pieces
            .iter_mut()
            .try_for_each(|piece| stream.update(piece))?;
        stream.tag()
    }

    /// Opens a message that lies in several places, where they are; all are zeroed on failure.
    ///
    /// # Errors
    /// As [`AeadCipher::open`].
    pub fn open_pieces(
        &self,
        nonce: &[u8],
        aad: &[u8],
        pieces: &mut [&mut [u8]],
        tag: &[u8; TAG_LEN],
    ) -> Result<()> {
        self.check(nonce)?;
        if !self.has_pieces() || pieces::alone(pieces).is_some() {
            return pieces::whole(pieces, |data| self.open(nonce, aad, data, tag));
        }
        let opened =
            GcmStream::new(&self.key, nonce, aad, Direction::Decrypt).and_then(|mut stream| {
                pieces
                    .iter_mut()
                    .try_for_each(|piece| stream.update(piece))?;
                stream.verify(tag)
            });
        if opened.is_err() {
            pieces.iter_mut().for_each(|piece| piece.fill(0));
        }
        opened
    }

    fn has_pieces(&self) -> bool {
        self.provider == Provider::AwsLc && self.algorithm.is_gcm()
    }

    fn check(&self, nonce: &[u8]) -> Result<()> {
        let algorithm = self.algorithm;
        let is_short = nonce.len() == SHORT_NONCE_LEN && algorithm.is_ccm();
        let is_long = nonce.len() == LONG_NONCE_LEN && algorithm.is_gcm();
        if nonce.len() == algorithm.nonce_len() || is_short || is_long {
            Ok(())
        } else {
            Err(Error::AeadKey { algorithm })
        }
    }
}

impl fmt::Debug for AeadCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AeadCipher({}, [redacted])", self.algorithm)
    }
}
