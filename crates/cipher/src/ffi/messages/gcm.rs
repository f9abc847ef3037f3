//! AES-GCM piece by piece, through AWS-LC's `EVP_CIPHER` interface.
//!
//! `EVP_AEAD` takes a message whole. This is for messages in several places, and for such as do not
//! fit memory.

use std::ptr::null_mut;

use aws_lc_sys as sys;

use crate::ffi::buffers::TAG_LEN;
use crate::ffi::evp::{CipherContext, Direction};
use crate::{Error, Result};

/// A message that is being sealed or opened.
pub(crate) struct GcmStream {
    context: CipherContext,
    left: u64,
}

impl GcmStream {
    /// Begins a message; `key` has 16, 24 or 32 bytes, `nonce` 12 or 16.
    pub(crate) fn new(
        key: &[u8],
        nonce: &[u8],
        aad: &[u8],
        direction: Direction,
    ) -> Result<GcmStream> {
        // SAFETY: these take nothing and return pointers to static tables.
        let cipher = unsafe {
            match key.len() {
                16 => sys::EVP_aes_128_gcm(),
                24 => sys::EVP_aes_192_gcm(),
                32 => sys::EVP_aes_256_gcm(),
                _ => return Err(Error::Library),
            }
        };
        let mut context = CipherContext::new(cipher, direction)?;
        context.set_iv_len(nonce.len())?;
        context.set_key(key, Some(nonce))?;
        // An update takes no more than an int counts.
        for aad in aad.chunks(1 << 30) {
            // SAFETY: without output the input, a slice, is associated data.
            unsafe { context.update(null_mut(), aad.as_ptr(), aad.len(), Error::Library)? };
        }
        Ok(GcmStream {
            context,
            left: (1 << 36) - 32,
        })
    }

    /// Runs over the next bytes of the message, in place. What is decrypted is not authentic until
    /// [`GcmStream::verify`] says so.
    pub(crate) fn update(&mut self, data: &mut [u8]) -> Result<()> {
        // NIST SP 800-38D, 5.2.1.1.
        self.left = self
            .left
            .checked_sub(data.len() as u64)
            .ok_or(Error::Library)?;
        for data in data.chunks_mut(1 << 30) {
            let pointer = data.as_mut_ptr();
            // SAFETY: input and output are the same slice, and GCM writes as much as it reads.
            unsafe {
                self.context
                    .update(pointer, pointer, data.len(), Error::Library)?
            };
        }
        Ok(())
    }

    /// Ends the message that was encrypted, and returns its tag.
    pub(crate) fn tag(mut self) -> Result<[u8; TAG_LEN]> {
        self.context.finish(Error::Library)?;
        let mut tag = [0; TAG_LEN];
        let get = sys::EVP_CTRL_AEAD_GET_TAG;
        self.context.control(get, TAG_LEN, Some(&mut tag))?;
        Ok(tag)
    }

    /// Ends the message that was decrypted: whether it was authentic.
    pub(crate) fn verify(mut self, tag: &[u8; TAG_LEN]) -> Result<()> {
        // A copy, because the library takes the expected tag by a pointer to non-const.
        let mut tag = *tag;
        let set = sys::EVP_CTRL_AEAD_SET_TAG;
        self.context.control(set, TAG_LEN, Some(&mut tag))?;
        self.context.finish(Error::Unauthentic)
    }
}
