//! AES-GCM, ChaCha20-Poly1305 and XChaCha20-Poly1305, through AWS-LC's `EVP_AEAD` interface.
//!
//! The scatter and gather calls take input, output and tag apart. So a record is sealed from one buffer into another
//! in one pass. The states of these AEADs lie inside `EVP_AEAD_CTX`: no heap.

use std::ptr::{null, null_mut};

use aws_lc_sys as sys;

use crate::ffi::buffers::{AeadBuffers, TAG_LEN};
use crate::ffi::library::{WipedCell, check};
use crate::{Error, Result};

/// An AEAD of AWS-LC with a 16-byte tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aead {
    /// 16-byte key, nonce of 12 bytes or 16.
    Aes128Gcm,
    /// 24-byte key, nonce of 12 bytes or 16.
    Aes192Gcm,
    /// 32-byte key, nonce of 12 bytes or 16.
    Aes256Gcm,
    /// 32-byte key, 12-byte nonce.
    ChaCha20Poly1305,
    /// 32-byte key, 24-byte nonce.
    XChaCha20Poly1305,
}

impl Aead {
    /// Encrypts, and returns the tag. On failure the output is zeroed.
    #[inline]
    pub(crate) fn seal(
        self,
        key: &[u8],
        nonce: &[u8],
        aad: &[u8],
        mut data: AeadBuffers<'_>,
    ) -> Result<[u8; TAG_LEN]> {
        let (input, output, len) = data.pointers()?;
        let context = AeadContext::new(self, key, nonce)?;
        let mut tag = [0; TAG_LEN];
        let mut tag_len = 0;
        // SAFETY: the context is initialised. Each pointer is valid for the length beside it: from
        // `pointers` (input and output, which are also equal or apart) or from a slice. There is no
        // extra input, so its null pointer is not read.
        let done = unsafe {
            sys::EVP_AEAD_CTX_seal_scatter(
                context.as_ptr(),
                output,
                tag.as_mut_ptr(),
                &mut tag_len,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                input,
                len,
                null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        };
        let sealed = check(done, Error::Library);
        if sealed.is_ok() && tag_len == TAG_LEN {
            return Ok(tag);
        }
        data.wipe_output();
        Err(Error::Library)
    }

    /// Decrypts. On failure the output is zeroed.
    #[inline]
    pub(crate) fn open(
        self,
        key: &[u8],
        nonce: &[u8],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        mut data: AeadBuffers<'_>,
    ) -> Result<()> {
        let (input, output, len) = data.pointers()?;
        let context = AeadContext::new(self, key, nonce)?;
        // SAFETY: as for `seal`; the tag is an array of the length given.
        let done = unsafe {
            sys::EVP_AEAD_CTX_open_gather(
                context.as_ptr(),
                output,
                nonce.as_ptr(),
                nonce.len(),
                input,
                len,
                tag.as_ptr(),
                tag.len(),
                aad.as_ptr(),
                aad.len(),
            )
        };
        let opened = check(done, Error::Unauthentic);
        if opened.is_err() {
            data.wipe_output();
        }
        opened
    }

    fn key_len(self) -> usize {
        match self {
            Aead::Aes128Gcm => 16,
            Aead::Aes192Gcm => 24,
            Aead::Aes256Gcm | Aead::ChaCha20Poly1305 | Aead::XChaCha20Poly1305 => 32,
        }
    }

    fn takes_nonce(self, len: usize) -> bool {
        match self {
            Aead::Aes128Gcm | Aead::Aes192Gcm | Aead::Aes256Gcm => len == 12 || len == 16,
            Aead::ChaCha20Poly1305 => len == 12,
            Aead::XChaCha20Poly1305 => len == 24,
        }
    }

    fn method(self) -> *const sys::EVP_AEAD {
        // SAFETY: these take nothing and return pointers to static tables.
        unsafe {
            match self {
                Aead::Aes128Gcm => sys::EVP_aead_aes_128_gcm(),
                Aead::Aes192Gcm => sys::EVP_aead_aes_192_gcm(),
                Aead::Aes256Gcm => sys::EVP_aead_aes_256_gcm(),
                Aead::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
                Aead::XChaCha20Poly1305 => sys::EVP_aead_xchacha20_poly1305(),
            }
        }
    }
}

/// An initialised `EVP_AEAD_CTX`, cleaned up and wiped on drop.
struct AeadContext(WipedCell<sys::EVP_AEAD_CTX>);

impl AeadContext {
    #[inline]
    fn new(aead: Aead, key: &[u8], nonce: &[u8]) -> Result<AeadContext> {
        if key.len() != aead.key_len() || !aead.takes_nonce(nonce.len()) {
            return Err(Error::Library);
        }
        let mut context = AeadContext(WipedCell::uninit());
        // SAFETY: the context is a place of the right size, which init may find uninitialised; the
        // method is a static table; the key is valid for its length; there is no engine. If init
        // fails it leaves the context in the state that cleanup takes for empty.
        let done = unsafe {
            sys::EVP_AEAD_CTX_init(
                context.0.as_mut_ptr(),
                aead.method(),
                key.as_ptr(),
                key.len(),
                TAG_LEN,
                null_mut(),
            )
        };
        check(done, Error::Library)?;
        Ok(context)
    }

    fn as_ptr(&self) -> *const sys::EVP_AEAD_CTX {
        self.0.as_ptr()
    }
}

impl Drop for AeadContext {
    fn drop(&mut self) {
        // SAFETY: `new` is the only constructor and has run init on the context, whose outcome
        // cleanup reads. No pointer to the context is left.
        unsafe { sys::EVP_AEAD_CTX_cleanup(self.0.as_mut_ptr()) }
    }
}
