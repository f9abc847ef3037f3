//! AES-CCM (NIST SP 800-38C), through AWS-LC's `EVP_CIPHER` interface.
//!
//! AWS-LC has no `EVP_AEAD` for CCM with the 12-byte nonces and 16-byte tags of the suites. Its
//! `EVP_CIPHER` requires a fixed order of calls, which this module hides. (Lengths are arguments
//! so that the examples of the standard, which have others, can be tests.)
//!
//! 1. choose the cipher without key and nonce, since the next two must be known when those are set;
//! 2. set the nonce length (the default is 7 bytes) and the tag length (the default is 14), and to
//!    decrypt also the expected tag;
//! 3. set key and nonce;
//! 4. announce the message length, which enters the first MAC block: an update without buffers;
//! 5. give the associated data in one call, or no call if there is none;
//! 6. give the message in one call, also if it is empty: this computes and compares the tag;
//! 7. to encrypt, ask for the tag.
//!
//! The state, with the expanded per-record key, lies on the heap of the library during the call. The library
//! overwrites it when it frees it.

use std::ptr::{null, null_mut};

use aws_lc_sys as sys;

use crate::ffi::buffers::{AeadBuffers, TAG_LEN};
use crate::ffi::evp::{CipherContext, Direction};
use crate::{Error, Result};

/// AES-CCM with a key length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ccm {
    /// 16-byte key.
    Aes128,
    /// 24-byte key.
    Aes192,
    /// 32-byte key.
    Aes256,
}

impl Ccm {
    /// Encrypts, and writes the tag. On failure the output is zeroed.
    pub(crate) fn seal(
        self,
        key: &[u8],
        nonce: &[u8],
        aad: &[u8],
        mut data: AeadBuffers<'_>,
        tag: &mut [u8],
    ) -> Result<()> {
        let sealed =
            CcmContext::new(self, key, nonce, Tag::Len(tag.len())).and_then(|mut context| {
                context.run(aad, &mut data, Error::Library)?;
                context.tag(tag)
            });
        if sealed.is_err() {
            data.wipe_output();
        }
        sealed
    }

    /// Decrypts. On failure the output is zeroed.
    pub(crate) fn open(
        self,
        key: &[u8],
        nonce: &[u8],
        aad: &[u8],
        tag: &[u8],
        mut data: AeadBuffers<'_>,
    ) -> Result<()> {
        let opened = CcmContext::new(self, key, nonce, Tag::Expected(tag))
            .and_then(|mut context| context.run(aad, &mut data, Error::Unauthentic));
        if opened.is_err() {
            data.wipe_output();
        }
        opened
    }

    fn key_len(self) -> usize {
        match self {
            Ccm::Aes128 => 16,
            Ccm::Aes192 => 24,
            Ccm::Aes256 => 32,
        }
    }

    fn method(self) -> *const sys::EVP_CIPHER {
        // SAFETY: these take nothing and return pointers to static tables.
        unsafe {
            match self {
                Ccm::Aes128 => sys::EVP_aes_128_ccm(),
                Ccm::Aes192 => sys::EVP_aes_192_ccm(),
                Ccm::Aes256 => sys::EVP_aes_256_ccm(),
            }
        }
    }
}

/// The tag to make or to expect.
enum Tag<'a> {
    /// Encrypt, and make a tag of this length.
    Len(usize),
    /// Decrypt, and expect this.
    Expected(&'a [u8]),
}

/// A context for one message.
struct CcmContext {
    context: CipherContext,
    /// The longest message whose length fits the bytes that the nonce leaves for it.
    max_len: usize,
}

impl CcmContext {
    /// Steps 1 to 3.
    fn new(ccm: Ccm, key: &[u8], nonce: &[u8], tag: Tag<'_>) -> Result<CcmContext> {
        if key.len() != ccm.key_len() || !(7..=13).contains(&nonce.len()) {
            return Err(Error::Library);
        }
        // A copy, because the library takes the expected tag by a pointer to non-const.
        let mut buffer = [0; TAG_LEN];
        let (direction, tag_len, tag) = match tag {
            Tag::Len(len) if len <= TAG_LEN => (Direction::Encrypt, len, None),
            Tag::Expected(tag) if tag.len() <= TAG_LEN => {
                let buffer = &mut buffer[..tag.len()];
                buffer.copy_from_slice(tag);
                (Direction::Decrypt, tag.len(), Some(buffer))
            }
            _ => return Err(Error::Library),
        };
        let mut context = CipherContext::new(ccm.method(), direction)?;
        context.set_iv_len(nonce.len())?;
        context.control(sys::EVP_CTRL_AEAD_SET_TAG, tag_len, tag)?;
        context.set_key(key, Some(nonce))?;
        Ok(CcmContext {
            context,
            max_len: 1usize
                .checked_shl(8 * (15 - nonce.len() as u32))
                .map_or(usize::MAX, |n| n - 1),
        })
    }

    /// Step 7. The library refuses any length but that of the tag it made.
    fn tag(&mut self, tag: &mut [u8]) -> Result<()> {
        self.context
            .control(sys::EVP_CTRL_AEAD_GET_TAG, tag.len(), Some(tag))
    }

    /// Steps 4 to 6; `failure` is what a refused message means.
    fn run(&mut self, aad: &[u8], data: &mut AeadBuffers<'_>, failure: Error) -> Result<()> {
        let (input, output, len) = data.pointers()?;
        if len > self.max_len {
            return Err(Error::Library);
        }
        let context = &mut self.context;
        // SAFETY: without buffers this announces the length, without output the associated data is
        // read, with both the message is written, to exactly `len` bytes. The pointers are those of
        // slices, or of `pointers`, and so valid for the lengths beside them, equal or apart.
        unsafe {
            context.update(null_mut(), null(), len, Error::Library)?;
            if !aad.is_empty() {
                context.update(null_mut(), aad.as_ptr(), aad.len(), Error::Library)?;
            }
            context.update(output, input, len, failure)
        }
    }
}
