//! AES-CCM (NIST SP 800-38C), through AWS-LC's `EVP_CIPHER` interface.
//!
//! AWS-LC has no `EVP_AEAD` for CCM with the 12-byte nonces and 16-byte tags of the suites. Its
//! `EVP_CIPHER` wants things in one order, which this module keeps to itself. (Lengths are arguments
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
//! The state, with the expanded per-record key, lies on the heap of the library for the duration of
//! the call; the library overwrites it when it frees it.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use aws_lc_sys as sys;

use super::{Buffers, TAG_LEN, Wiped, check};
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
        mut data: Buffers<'_>,
        tag: &mut [u8],
    ) -> Result<()> {
        let sealed = Context::new(self, key, nonce, Tag::Len(tag.len())).and_then(|mut context| {
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
        mut data: Buffers<'_>,
    ) -> Result<()> {
        let opened = Context::new(self, key, nonce, Tag::Expected(tag))
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

/// An initialised `EVP_CIPHER_CTX`, freed and wiped on drop.
struct Context {
    context: Wiped<sys::EVP_CIPHER_CTX>,
    /// The longest message whose length fits the bytes that the nonce leaves for it.
    max_len: usize,
}

impl Context {
    /// Steps 1 to 3.
    fn new(ccm: Ccm, key: &[u8], nonce: &[u8], tag: Tag<'_>) -> Result<Context> {
        if key.len() != ccm.key_len() || !(7..=13).contains(&nonce.len()) {
            return Err(Error::Library);
        }
        // A copy, because the library takes the expected tag by a pointer to non-const.
        let mut buffer = [0; TAG_LEN];
        let (encrypt, tag_len, tag) = match tag {
            Tag::Len(len) if len <= TAG_LEN => (1, len, null_mut()),
            Tag::Expected(tag) if tag.len() <= TAG_LEN => {
                buffer[..tag.len()].copy_from_slice(tag);
                (0, tag.len(), buffer.as_mut_ptr())
            }
            _ => return Err(Error::Library),
        };
        let mut context = Context {
            context: Wiped::uninit(),
            max_len: 1usize
                .checked_shl(8 * (15 - nonce.len() as u32))
                .map_or(usize::MAX, |n| n - 1),
        };
        // SAFETY: the pointer is to a place of the right size, which this call initialises.
        unsafe { sys::EVP_CIPHER_CTX_init(context.context.as_mut_ptr()) };
        context.init(ccm.method(), null(), null(), encrypt)?;
        context.control(sys::EVP_CTRL_AEAD_SET_IVLEN, nonce.len(), null_mut())?;
        context.control(sys::EVP_CTRL_AEAD_SET_TAG, tag_len, tag)?;
        context.init(null(), key.as_ptr(), nonce.as_ptr(), encrypt)?;
        Ok(context)
    }

    /// Sets what is not null: the cipher, or the key (of the cipher's length) and the nonce.
    fn init(
        &mut self,
        cipher: *const sys::EVP_CIPHER,
        key: *const u8,
        nonce: *const u8,
        encrypt: c_int,
    ) -> Result<()> {
        // SAFETY: the context is initialised; `new` passes null or pointers to a static table, to a
        // key of the cipher's key length and to a nonce of the length just set; no engine.
        let done = unsafe {
            sys::EVP_CipherInit_ex(
                self.context.as_mut_ptr(),
                cipher,
                null_mut(),
                key,
                nonce,
                encrypt,
            )
        };
        check(done, Error::Library)
    }

    /// Sets the nonce length, or the tag length (and the tag), or gets the tag.
    fn control(&mut self, what: c_int, len: usize, tag: *mut u8) -> Result<()> {
        let len = c_int::try_from(len).map_err(|_| Error::Library)?;
        // SAFETY: the context has a cipher. The pointer is null, or valid for `len` bytes of a tag,
        // which is how many the library reads (to set) or writes (to get) there.
        let done =
            unsafe { sys::EVP_CIPHER_CTX_ctrl(self.context.as_mut_ptr(), what, len, tag.cast()) };
        check(done, Error::Library)
    }

    /// Step 7. The library refuses any length but that of the tag it made.
    fn tag(&mut self, tag: &mut [u8]) -> Result<()> {
        self.control(sys::EVP_CTRL_AEAD_GET_TAG, tag.len(), tag.as_mut_ptr())
    }

    /// Steps 4 to 6; `failure` is what a refused message means.
    fn run(&mut self, aad: &[u8], data: &mut Buffers<'_>, failure: Error) -> Result<()> {
        let (input, output, len) = data.pointers()?;
        if len > self.max_len {
            return Err(Error::Library);
        }
        self.update(null_mut(), null(), len, Error::Library)?;
        if !aad.is_empty() {
            self.update(null_mut(), aad.as_ptr(), aad.len(), Error::Library)?;
        }
        self.update(output, input, len, failure)
    }

    /// `EVP_CipherUpdate`: without buffers the length, without output the associated data, with
    /// both the message.
    fn update(
        &mut self,
        output: *mut u8,
        input: *const u8,
        len: usize,
        failure: Error,
    ) -> Result<()> {
        let len = c_int::try_from(len).map_err(|_| Error::Library)?;
        let mut written = 0;
        // SAFETY: the context is initialised with key and nonce; `run` passes null, or pointers
        // valid for `len` bytes, equal or apart. CCM writes exactly `len` bytes.
        let done = unsafe {
            sys::EVP_CipherUpdate(self.context.as_mut_ptr(), output, &mut written, input, len)
        };
        check(done, failure)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was initialised before anything in `new` could fail. No pointer to it
        // is left. The call frees, and so overwrites, the state on the heap.
        unsafe {
            sys::EVP_CIPHER_CTX_cleanup(self.context.as_mut_ptr());
        }
    }
}
