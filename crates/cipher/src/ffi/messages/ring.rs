//! AES-GCM of `ring`, for processors with vector instructions for AES but without AVX-512. AWS-LC uses those with
//! AVX-512 alone, and is half as fast there.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};

use crate::ffi::buffers::{AeadBuffers, TAG_LEN};
use crate::ffi::library::{WipedCell, wipe_stack};
use crate::{Error, Result};

/// AES-GCM with a 16-byte tag and nonces of 12 bytes.
#[derive(Clone, Copy)]
pub(crate) struct RingGcm(&'static Algorithm);

impl RingGcm {
    /// Returns the cipher for keys of 16 or 32 bytes. `ring` has no others.
    pub(crate) fn new(key_len: usize) -> Option<RingGcm> {
        match key_len {
            16 => Some(RingGcm(&AES_128_GCM)),
            32 => Some(RingGcm(&AES_256_GCM)),
            _ => None,
        }
    }

    /// Encrypts, and returns the tag. On failure the output is zeroed.
    pub(crate) fn seal(
        self,
        key: &[u8],
        nonce: &[u8; 12],
        aad: &[u8],
        mut data: AeadBuffers<'_>,
    ) -> Result<[u8; TAG_LEN]> {
        let output = data.copied()?;
        let sealed = self.with(key, |key| {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), output);
            tag.ok()?.as_ref().try_into().ok()
        });
        sealed.ok_or_else(|| {
            data.wipe_output();
            Error::Library
        })
    }

    /// Decrypts. On failure the output is zeroed.
    pub(crate) fn open(
        self,
        key: &[u8],
        nonce: &[u8; 12],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        mut data: AeadBuffers<'_>,
    ) -> Result<()> {
        let output = data.copied()?;
        let opened = self.with(key, |key| {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let tag = (*tag).into();
            let opened = key.open_in_place_separate_tag(nonce, Aad::from(aad), tag, output, 0..);
            opened.is_ok().then_some(())
        });
        opened.ok_or_else(|| {
            data.wipe_output();
            Error::Unauthentic
        })
    }

    /// Runs with a key that is wiped afterwards, and with it what the library left on the stack: `ring` wipes nothing.
    fn with<T>(self, key: &[u8], run: impl FnOnce(&LessSafeKey) -> Option<T>) -> Option<T> {
        let mut place = WipedCell::uninit();
        let done = self.expand(key, &mut place).and_then(run);
        wipe_stack();
        done
    }

    /// Expands a key. The function is not inlined, so that its copies lie below the caller's part of the stack.
    #[inline(never)]
    fn expand<'a>(
        self,
        key: &[u8],
        place: &'a mut WipedCell<LessSafeKey>,
    ) -> Option<&'a LessSafeKey> {
        let key = UnboundKey::new(self.0, key).ok()?;
        Some(place.write(LessSafeKey::new(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_length_of_the_algorithm() {
        assert!(RingGcm::new(24).is_none());
        let gcm = RingGcm::new(32).expect("of 32 bytes");
        let mut data = [7; 5];
        let sealed = gcm.seal(&[1; 16], &[2; 12], b"", AeadBuffers::InPlace(&mut data));
        assert_eq!((sealed, data), (Err(Error::Library), [0; 5]));
    }
}
