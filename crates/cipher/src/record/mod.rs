//! Sealing and opening records: the data path of every dataset.
//!
//! A [`RecordCipher`] is an expanded data key. For the AES suites this is the key schedule and the CMAC subkey, for
//! XChaCha20-Poly1305 the key itself. Everything that depends on the record (the derived key, the AEAD's context) is
//! made on the stack for one call, and wiped when it returns. So threads share the cipher without locks, and it stays
//! a small flat value that can live in locked memory.

mod kdf;

use std::fmt;
use std::mem::MaybeUninit;

use zeroize::{Zeroize, Zeroizing};

use kdf::RecordKdf;

use crate::ffi::{Aead, AeadBuffers, Ccm, RingGcm};
use crate::provider::policy;
use crate::{Error, Mechanism, Provider, Result, Suite, pieces};

/// The length of a nonce: 192 bits, enough to draw at random for ever.
pub const NONCE_LEN: usize = 24;

/// The length of a tag. No suite truncates it.
pub const TAG_LEN: usize = crate::ffi::TAG_LEN;

/// The length of the longest data key of any suite.
pub const KEY_LEN_MAX: usize = 32;

/// A data key, ready to seal and open records.
///
/// A flat value without pointers, wiped on drop, shared between threads. It cannot be cloned, and prints as
/// `[redacted]`. Moving it copies the key material, as moving anything in Rust does. Use [`RecordCipher::new_in`] to
/// expand the key where it will stay.
///
/// ```
/// use cipher::{RecordCipher, Suite};
///
/// # fn main() -> cipher::Result<()> {
/// let cipher = RecordCipher::new(Suite::Xaes256Gcm, &[7; 32])?;
/// let nonce = [1; 24]; // in earnest from `Random::nonce`
/// let mut sealed = [0; 5];
/// let tag = cipher.seal(&nonce, b"what it is", b"hello", &mut sealed)?;
///
/// let mut opened = [0; 5];
/// cipher.open(&nonce, b"what it is", &sealed, &tag, &mut opened)?;
/// assert_eq!(&opened, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct RecordCipher {
    suite: Suite,
    key: DataKey,
}

/// The key, and what it is for.
enum DataKey {
    /// Derives keys for AES-GCM.
    Gcm(RecordGcm, RecordKdf),
    /// Derives keys for AES-CCM.
    Ccm(Ccm, RecordKdf),
    /// Is itself the key of XChaCha20-Poly1305.
    XChaCha(XChaChaKey),
}

/// AES-GCM of a provider.
enum RecordGcm {
    AwsLc(Aead),
    Ring(RingGcm),
}

struct XChaChaKey([u8; 32]);

impl Drop for XChaChaKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl RecordCipher {
    /// Expands `key` for `suite`.
    ///
    /// # Errors
    /// [`Error::KeyLength`] unless `key` has [`Suite::key_len`] bytes; [`Error::NotApproved`] in FIPS
    /// mode.
    pub fn new(suite: Suite, key: &[u8]) -> Result<RecordCipher> {
        RecordCipher::with_provider(policy::provider(Mechanism::Record(suite))?, suite, key)
    }

    /// The variant of [`RecordCipher::new`] with this provider.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the provider does not have the suite; [`Error::KeyLength`].
    pub fn with_provider(provider: Provider, suite: Suite, key: &[u8]) -> Result<RecordCipher> {
        let mut cipher = RecordCipher::blank(provider, suite)?;
        cipher.set(key)?;
        Ok(cipher)
    }

    /// Expands `key` for `suite` inside `place`, so that no copy of it is left anywhere else.
    ///
    /// # Errors
    /// As [`RecordCipher::new`]; `place` then holds no key material.
    pub fn new_in<'a>(
        place: &'a mut MaybeUninit<RecordCipher>,
        suite: Suite,
        key: &[u8],
    ) -> Result<&'a mut RecordCipher> {
        let provider = policy::provider(Mechanism::Record(suite))?;
        let cipher = place.write(RecordCipher::blank(provider, suite)?);
        cipher.set(key)?;
        Ok(cipher)
    }

    /// A cipher without a key, which never leaves this module.
    fn blank(provider: Provider, suite: Suite) -> Result<RecordCipher> {
        if !Mechanism::Record(suite).providers().contains(&provider) {
            return Err(Error::Unsupported { provider });
        }
        let kdf = RecordKdf::blank(suite);
        let gcm = |aead| match RingGcm::new(suite.key_len()) {
            Some(ring) if provider == Provider::Ring => RecordGcm::Ring(ring),
            _ => RecordGcm::AwsLc(aead),
        };
        let key = match suite {
            Suite::Xaes256Gcm | Suite::Aes256Gcm => DataKey::Gcm(gcm(Aead::Aes256Gcm), kdf),
            Suite::Aes128Gcm => DataKey::Gcm(gcm(Aead::Aes128Gcm), kdf),
            Suite::Aes192Gcm => DataKey::Gcm(gcm(Aead::Aes192Gcm), kdf),
            Suite::Aes128Ccm => DataKey::Ccm(Ccm::Aes128, kdf),
            Suite::Aes192Ccm => DataKey::Ccm(Ccm::Aes192, kdf),
            Suite::Aes256Ccm => DataKey::Ccm(Ccm::Aes256, kdf),
            Suite::XChaCha20Poly1305 => DataKey::XChaCha(XChaChaKey([0; 32])),
        };
        Ok(RecordCipher { suite, key })
    }

    fn set(&mut self, key: &[u8]) -> Result<()> {
        let expected = self.suite.key_len();
        if key.len() != expected {
            return Err(Error::KeyLength {
                suite: self.suite,
                expected,
                got: key.len(),
            });
        }
        match &mut self.key {
            DataKey::Gcm(_, kdf) | DataKey::Ccm(_, kdf) => kdf.set(key)?,
            DataKey::XChaCha(place) => place.0.copy_from_slice(key),
        }
        Ok(())
    }

    /// The suite that this key is for.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Seals `plain` into `out`, which has the same length, and returns the tag.
    ///
    /// `nonce` must never be used for two different records (plaintext or associated data) under one data key. Take
    /// it from [`Random::nonce`](crate::Random::nonce), or compute it as a MAC of everything that is sealed.
    ///
    /// # Errors
    /// [`Error::TooLong`] past [`Suite::max_len`]; [`Error::OutputLength`] if the lengths differ.
    #[inline]
    pub fn seal(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<[u8; TAG_LEN]> {
        self.seal_buffers(nonce, aad, AeadBuffers::Apart(plain, out))
    }

    /// Seals `data` where it is, and returns the tag. The nonce is as for
    /// [`RecordCipher::seal`].
    ///
    /// # Errors
    /// As for [`RecordCipher::seal`]; `data` is then unchanged or zeroed.
    #[inline]
    pub fn seal_in_place(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        data: &mut [u8],
    ) -> Result<[u8; TAG_LEN]> {
        self.seal_buffers(nonce, aad, AeadBuffers::InPlace(data))
    }

    /// Opens `sealed` into `out`, which has the same length and is zeroed on failure.
    ///
    /// # Errors
    /// [`Error::Unauthentic`] unless key, nonce, associated data, ciphertext and tag are those of one
    /// sealed record; [`Error::TooLong`] and [`Error::OutputLength`] as for [`RecordCipher::seal`].
    #[inline]
    pub fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        sealed: &[u8],
        tag: &[u8; TAG_LEN],
        out: &mut [u8],
    ) -> Result<()> {
        self.open_buffers(nonce, aad, tag, AeadBuffers::Apart(sealed, out))
    }

    /// Opens `data` where it is; it is zeroed on failure.
    ///
    /// # Errors
    /// As for [`RecordCipher::open`].
    #[inline]
    pub fn open_in_place(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<()> {
        self.open_buffers(nonce, aad, tag, AeadBuffers::InPlace(data))
    }

    /// The variant of [`RecordCipher::seal_in_place`] for a record in several slices, of any length and alignment.
    /// More than one that is not empty are copied together, and back.
    ///
    /// # Errors
    /// As for [`RecordCipher::seal`].
    pub fn seal_pieces(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        pieces: &mut [&mut [u8]],
    ) -> Result<[u8; TAG_LEN]> {
        pieces::whole(pieces, |data| self.seal_in_place(nonce, aad, data))
    }

    /// Opens what lies in several places, as [`RecordCipher::seal_pieces`] seals it; all are zeroed on
    /// failure.
    ///
    /// # Errors
    /// As for [`RecordCipher::open`].
    pub fn open_pieces(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        pieces: &mut [&mut [u8]],
        tag: &[u8; TAG_LEN],
    ) -> Result<()> {
        pieces::whole(pieces, |data| self.open_in_place(nonce, aad, data, tag))
    }

    fn seal_buffers(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        data: AeadBuffers<'_>,
    ) -> Result<[u8; TAG_LEN]> {
        self.check_lengths(&data)?;
        let (context, iv) = halves(nonce);
        let mut key = Zeroizing::new([0; KEY_LEN_MAX]);
        let key = &mut key[..self.suite.key_len()];
        match &self.key {
            DataKey::Gcm(gcm, kdf) => {
                kdf.derive(context, key);
                match gcm {
                    RecordGcm::AwsLc(aead) => aead.seal(key, iv, aad, data),
                    RecordGcm::Ring(ring) => ring.seal(key, iv, aad, data),
                }
            }
            DataKey::Ccm(ccm, kdf) => {
                kdf.derive(context, key);
                let mut tag = [0; TAG_LEN];
                ccm.seal(key, iv, aad, data, &mut tag)?;
                Ok(tag)
            }
            DataKey::XChaCha(key) => Aead::XChaCha20Poly1305.seal(&key.0, nonce, aad, data),
        }
    }

    fn open_buffers(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        mut data: AeadBuffers<'_>,
    ) -> Result<()> {
        if let Err(error) = self.check_lengths(&data) {
            data.wipe_output();
            return Err(error);
        }
        let (context, iv) = halves(nonce);
        let mut key = Zeroizing::new([0; KEY_LEN_MAX]);
        let key = &mut key[..self.suite.key_len()];
        match &self.key {
            DataKey::Gcm(gcm, kdf) => {
                kdf.derive(context, key);
                match gcm {
                    RecordGcm::AwsLc(aead) => aead.open(key, iv, aad, tag, data),
                    RecordGcm::Ring(ring) => ring.open(key, iv, aad, tag, data),
                }
            }
            DataKey::Ccm(ccm, kdf) => {
                kdf.derive(context, key);
                ccm.open(key, iv, aad, tag, data)
            }
            DataKey::XChaCha(key) => Aead::XChaCha20Poly1305.open(&key.0, nonce, aad, tag, data),
        }
    }

    fn check_lengths(&self, data: &AeadBuffers<'_>) -> Result<()> {
        let input = data.input_len();
        let (got, max) = (input as u64, self.suite.max_len());
        if got > max {
            return Err(Error::TooLong {
                suite: self.suite,
                max,
                got,
            });
        }
        let output = data.output_len();
        if output != input {
            return Err(Error::OutputLength { input, output });
        }
        Ok(())
    }
}

impl fmt::Debug for RecordCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordCipher({}, [redacted])", self.suite)
    }
}

/// `nonce[0..12]` and `nonce[12..24]`.
fn halves(nonce: &[u8; NONCE_LEN]) -> (&[u8; 12], &[u8; 12]) {
    let (first, second) = nonce.split_first_chunk::<12>().expect("24 bytes");
    (first, second.first_chunk::<12>().expect("12 bytes"))
}
