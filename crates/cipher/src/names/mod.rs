//! Ciphers for names: the output has the length of the input, 16 bytes and more.
//!
//! fscrypt and gocryptfs encrypt names with them (they pad names to 16 bytes and more). HCTR2, Adiantum and EME
//! change all of the output with any bit of the input. CBC-CTS changes only what comes after it. None of them
//! authenticates, and the same name under the same tweak is the same ciphertext.

mod cts;
mod eme;
mod hctr2;

use std::fmt;

use crate::block::adiantum;
use crate::block::tweakable_cipher::TweakableCipher;
use crate::ffi::Direction;
use crate::provider::policy;
use crate::{Error, Mechanism, NameMode, Provider, Result, pieces};

/// A key, ready to encrypt and decrypt names. Keys are overwritten on drop.
pub struct NameCipher {
    mode: NameMode,
    engine: Box<dyn TweakableCipher>,
}

impl NameCipher {
    /// Expands `key` for `mode`, with the provider that [`Policy`](crate::Policy) names.
    ///
    /// # Errors
    /// [`Error::NotApproved`] and [`Error::Disabled`] of the policy; [`Error::NameSize`] unless the key has one of [`NameMode::key_lens`].
    pub fn new(mode: NameMode, key: &[u8]) -> Result<NameCipher> {
        NameCipher::with_provider(policy::provider(Mechanism::Name(mode))?, mode, key)
    }

    /// The variant of [`NameCipher::new`] with the AES of this provider. (The rest of HCTR2 and Adiantum is composed
    /// here of RustCrypto's POLYVAL, Poly1305 and ChaCha.)
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the provider does not have the mode; [`Error::NameSize`].
    pub fn with_provider(provider: Provider, mode: NameMode, key: &[u8]) -> Result<NameCipher> {
        if !Mechanism::Name(mode).providers().contains(&provider) {
            return Err(Error::Unsupported { provider });
        }
        if !mode.key_lens().contains(&key.len()) {
            return Err(Error::NameSize {
                mode,
                what: "a key",
                got: key.len(),
            });
        }
        let engine: Box<dyn TweakableCipher> = match mode {
            NameMode::CbcCts => Box::new(cts::Cts::new(provider, key)?),
            NameMode::Hctr2 => Box::new(hctr2::Hctr2::new(provider, key)?),
            NameMode::Eme => Box::new(eme::Eme::new(provider, key)?),
            NameMode::Adiantum => adiantum::boxed::<chacha20::XChaCha12>(provider, key)?,
            NameMode::AdiantumXChaCha20 => adiantum::boxed::<chacha20::XChaCha20>(provider, key)?,
        };
        Ok(NameCipher { mode, engine })
    }

    /// Encrypts `data` where it is.
    ///
    /// # Errors
    /// [`Error::NameSize`] for data that the mode does not [take](NameMode::takes), or a tweak of another length than
    /// [`NameMode::tweak_len`]; `data` is then as it was.
    pub fn encrypt(&self, tweak: &[u8], data: &mut [u8]) -> Result<()> {
        self.run(Direction::Encrypt, tweak, data)
    }

    /// Decrypts `data` where it is.
    ///
    /// # Errors
    /// As for [`NameCipher::encrypt`].
    pub fn decrypt(&self, tweak: &[u8], data: &mut [u8]) -> Result<()> {
        self.run(Direction::Decrypt, tweak, data)
    }

    /// The variant of [`NameCipher::encrypt`] for data in several slices, of any length and alignment.
    ///
    /// # Errors
    /// As for [`NameCipher::encrypt`], by the length of all the pieces.
    pub fn encrypt_pieces(&self, tweak: &[u8], pieces: &mut [&mut [u8]]) -> Result<()> {
        pieces::whole(pieces, |data| self.run(Direction::Encrypt, tweak, data))
    }

    /// Decrypts what lies in several places.
    ///
    /// # Errors
    /// As for [`NameCipher::encrypt_pieces`].
    pub fn decrypt_pieces(&self, tweak: &[u8], pieces: &mut [&mut [u8]]) -> Result<()> {
        pieces::whole(pieces, |data| self.run(Direction::Decrypt, tweak, data))
    }

    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()> {
        let wrong = |what, got| Error::NameSize {
            mode: self.mode,
            what,
            got,
        };
        if self.mode.tweak_len().is_some_and(|len| len != tweak.len()) {
            return Err(wrong("a tweak", tweak.len()));
        }
        if !self.mode.takes(data.len()) {
            return Err(wrong("data", data.len()));
        }
        self.engine.run(direction, tweak, data)
    }
}

impl fmt::Debug for NameCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NameCipher({}, [redacted])", self.mode)
    }
}
