//! The AEADs of RustCrypto.

use aes_gcm::aead::{AeadInOut, KeyInit, Nonce, Tag};
use aes_siv::Aes256SivAead;
use ccm::consts::{U11, U12, U16};

use crate::algorithms::{LONG_NONCE_LEN, SHORT_NONCE_LEN};
use crate::{AeadAlgorithm, Error, Result, TAG_LEN};

type PortableGcm<C> = aes_gcm::AesGcm<C, U12>;
type LongGcm<C> = aes_gcm::AesGcm<C, U16>;
type PortableCcm<C> = ccm::Ccm<C, U16, U12>;
type ShortCcm<C> = ccm::Ccm<C, U16, U11>;

/// Does the same with the type that implements an algorithm.
macro_rules! with_type {
    ($algorithm:expr, $nonce_len:expr, $function:ident($($argument:expr),*)) => {
        match $algorithm {
            AeadAlgorithm::Aes128Ccm if $nonce_len == SHORT_NONCE_LEN => {
                $function::<ShortCcm<aes::Aes128>>($($argument),*)
            }
            AeadAlgorithm::Aes192Ccm if $nonce_len == SHORT_NONCE_LEN => {
                $function::<ShortCcm<aes::Aes192>>($($argument),*)
            }
            AeadAlgorithm::Aes256Ccm if $nonce_len == SHORT_NONCE_LEN => {
                $function::<ShortCcm<aes::Aes256>>($($argument),*)
            }
            AeadAlgorithm::Aes128Gcm if $nonce_len == LONG_NONCE_LEN => {
                $function::<LongGcm<aes::Aes128>>($($argument),*)
            }
            AeadAlgorithm::Aes192Gcm if $nonce_len == LONG_NONCE_LEN => {
                $function::<LongGcm<aes::Aes192>>($($argument),*)
            }
            AeadAlgorithm::Aes256Gcm if $nonce_len == LONG_NONCE_LEN => {
                $function::<LongGcm<aes::Aes256>>($($argument),*)
            }
            AeadAlgorithm::Aes128Gcm => $function::<PortableGcm<aes::Aes128>>($($argument),*),
            AeadAlgorithm::Aes192Gcm => $function::<PortableGcm<aes::Aes192>>($($argument),*),
            AeadAlgorithm::Aes256Gcm => $function::<PortableGcm<aes::Aes256>>($($argument),*),
            AeadAlgorithm::Aes128Ccm => $function::<PortableCcm<aes::Aes128>>($($argument),*),
            AeadAlgorithm::Aes192Ccm => $function::<PortableCcm<aes::Aes192>>($($argument),*),
            AeadAlgorithm::Aes256Ccm => $function::<PortableCcm<aes::Aes256>>($($argument),*),
            AeadAlgorithm::ChaCha20Poly1305 => {
                $function::<chacha20poly1305::ChaCha20Poly1305>($($argument),*)
            }
            AeadAlgorithm::XChaCha20Poly1305 => {
                $function::<chacha20poly1305::XChaCha20Poly1305>($($argument),*)
            }
            AeadAlgorithm::Aes256Siv => $function::<Aes256SivAead>($($argument),*),
        }
    };
}

/// Seals in place. The lengths of key and nonce are right.
pub(super) fn seal(
    algorithm: AeadAlgorithm,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
) -> Result<[u8; TAG_LEN]> {
    with_type!(algorithm, nonce.len(), seal_with(key, nonce, aad, data))
}

/// Opens in place.
pub(super) fn open(
    algorithm: AeadAlgorithm,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
    tag: &[u8; TAG_LEN],
) -> Result<()> {
    with_type!(
        algorithm,
        nonce.len(),
        open_with(key, nonce, aad, data, tag)
    )
}

fn seal_with<A: AeadInOut + KeyInit>(
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
) -> Result<[u8; TAG_LEN]> {
    let cipher = A::new_from_slice(key).map_err(|_| Error::Library)?;
    let nonce: &Nonce<A> = nonce.try_into().map_err(|_| Error::Library)?;
    let tag = cipher.encrypt_inout_detached(nonce, aad, data.into());
    let tag = tag.map_err(|_| Error::Library)?;
    tag.as_slice().try_into().map_err(|_| Error::Library)
}

fn open_with<A: AeadInOut + KeyInit>(
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
    tag: &[u8; TAG_LEN],
) -> Result<()> {
    let cipher = A::new_from_slice(key).map_err(|_| Error::Library)?;
    let nonce: &Nonce<A> = nonce.try_into().map_err(|_| Error::Library)?;
    let tag: &Tag<A> = tag[..].try_into().map_err(|_| Error::Library)?;
    let opened = cipher.decrypt_inout_detached(nonce, aad, data.into(), tag);
    opened.map_err(|_| Error::Unauthentic)
}
