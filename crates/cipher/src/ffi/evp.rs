//! An `EVP_CIPHER_CTX` of AWS-LC: a cipher with its key. The library keeps it on its own heap, and overwrites it when
//! it frees it.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use aws_lc_sys as sys;

use super::library::{WipedCell, check};
use crate::{Error, Result};

/// The direction of a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Plaintext to ciphertext.
    Encrypt,
    /// Ciphertext to plaintext.
    Decrypt,
}

/// An initialised `EVP_CIPHER_CTX`, freed and wiped on drop.
pub(super) struct CipherContext {
    /// The context, on the heap, where it stays: the state of GCM points back into it.
    context: Box<WipedCell<sys::EVP_CIPHER_CTX>>,
    /// The length of the IVs.
    iv_len: usize,
}

// SAFETY: a context is memory that belongs to it alone (the structure, and what it owns on the heap);
// the library ties nothing of it to a thread. It is not shared: every use takes `&mut`.
unsafe impl Send for CipherContext {}

impl CipherContext {
    /// A context for `cipher`, a static table of the library, without key and IV.
    pub(super) fn new(
        cipher: *const sys::EVP_CIPHER,
        direction: Direction,
    ) -> Result<CipherContext> {
        let mut context = CipherContext {
            context: Box::new(WipedCell::uninit()),
            iv_len: 0,
        };
        // SAFETY: the pointer is to a place of the right size, which this call initialises.
        unsafe { sys::EVP_CIPHER_CTX_init(context.context.as_mut_ptr()) };
        let encrypt = c_int::from(direction == Direction::Encrypt);
        context.init(cipher, null(), null(), encrypt)?;
        // SAFETY: the context is initialised and has a cipher.
        let iv_len = unsafe { sys::EVP_CIPHER_CTX_iv_length(context.context.as_ptr()) };
        context.iv_len = iv_len as usize;
        Ok(context)
    }

    /// Sets the key, and the IV if there is one.
    pub(super) fn set_key(&mut self, key: &[u8], iv: Option<&[u8]>) -> Result<()> {
        // SAFETY: the context is initialised and has a cipher.
        let key_len = unsafe { sys::EVP_CIPHER_CTX_key_length(self.context.as_ptr()) };
        if key.len() != key_len as usize {
            return Err(Error::Library);
        }
        if let Some(iv) = iv {
            self.check_iv(iv)?;
        }
        self.init(null(), key.as_ptr(), iv.map_or(null(), <[u8]>::as_ptr), -1)
    }

    /// Sets the IV alone: what is cheap from sector to sector.
    #[inline]
    pub(super) fn set_iv(&mut self, iv: &[u8]) -> Result<()> {
        self.check_iv(iv)?;
        self.init(null(), null(), iv.as_ptr(), -1)
    }

    fn check_iv(&self, iv: &[u8]) -> Result<()> {
        if iv.len() == self.iv_len {
            Ok(())
        } else {
            Err(Error::Library)
        }
    }

    /// Sets what is not null; an `encrypt` of -1 leaves the direction.
    #[inline]
    fn init(
        &mut self,
        cipher: *const sys::EVP_CIPHER,
        key: *const u8,
        iv: *const u8,
        encrypt: c_int,
    ) -> Result<()> {
        // SAFETY: the context is initialised; the callers above pass null or pointers to a static
        // table, to a key of the cipher's key length and to an IV of its IV length; no engine.
        let done = unsafe {
            sys::EVP_CipherInit_ex(
                self.context.as_mut_ptr(),
                cipher,
                null_mut(),
                key,
                iv,
                encrypt,
            )
        };
        check(done, Error::Library)
    }

    /// Sets how long the IVs of an AEAD are.
    pub(super) fn set_iv_len(&mut self, len: usize) -> Result<()> {
        self.control(sys::EVP_CTRL_AEAD_SET_IVLEN, len, None)?;
        self.iv_len = len;
        Ok(())
    }

    /// Sets the length of a tag and the tag, or gets it: `EVP_CIPHER_CTX_ctrl` with a length and no
    /// memory, or with memory of that length.
    pub(super) fn control(
        &mut self,
        what: c_int,
        len: usize,
        memory: Option<&mut [u8]>,
    ) -> Result<()> {
        let pointer = match memory {
            Some(memory) if memory.len() != len => return Err(Error::Library),
            Some(memory) => memory.as_mut_ptr(),
            None => null_mut(),
        };
        let len = c_int::try_from(len).map_err(|_| Error::Library)?;
        // SAFETY: the context has a cipher. The pointer is null, or valid for `len` bytes, which is
        // how many the library reads or writes there.
        let done = unsafe {
            sys::EVP_CIPHER_CTX_ctrl(self.context.as_mut_ptr(), what, len, pointer.cast())
        };
        check(done, Error::Library)
    }

    /// `EVP_CipherUpdate`, whose null pointers mean different things to different ciphers.
    ///
    /// # Safety
    /// Each pointer is null, or valid for `len` bytes; input and output are equal or apart; and the
    /// cipher writes no more than `len` bytes of output, as AEADs and stream ciphers do.
    pub(super) unsafe fn update(
        &mut self,
        output: *mut u8,
        input: *const u8,
        len: usize,
        failure: Error,
    ) -> Result<()> {
        let len = c_int::try_from(len).map_err(|_| Error::Library)?;
        let mut written = 0;
        // SAFETY: the context is initialised with key and IV; the pointers are as the caller says.
        let done = unsafe {
            sys::EVP_CipherUpdate(self.context.as_mut_ptr(), output, &mut written, input, len)
        };
        check(done, failure)
    }

    /// Ends a message of an AEAD that is not CCM: computes the tag, or compares it.
    pub(super) fn finish(&mut self, failure: Error) -> Result<()> {
        let (mut rest, mut written) = ([0u8; 32], 0);
        // SAFETY: the context is initialised with key and IV. An AEAD writes nothing here; the place
        // is larger than any block.
        let done = unsafe {
            sys::EVP_CipherFinal_ex(self.context.as_mut_ptr(), rest.as_mut_ptr(), &mut written)
        };
        check(done, failure)
    }

    /// Whole blocks in place, by a cipher that neither buffers nor pads: `EVP_Cipher`.
    #[inline]
    pub(super) fn blocks(&mut self, data: &mut [u8]) -> Result<()> {
        let pointer = data.as_mut_ptr();
        // SAFETY: the context is initialised; the callers have given it a key (and an IV where it
        // takes one) and data that is a multiple of its blocks, for which input and output are the
        // same memory of the length given.
        let done =
            unsafe { sys::EVP_Cipher(self.context.as_mut_ptr(), pointer, pointer, data.len()) };
        check(done, Error::Library)
    }
}

impl Drop for CipherContext {
    fn drop(&mut self) {
        // SAFETY: `new` initialised the context before anything could fail. No pointer to it is left.
        // The call frees, and so overwrites, the state on the heap.
        unsafe {
            sys::EVP_CIPHER_CTX_cleanup(self.context.as_mut_ptr());
        }
    }
}
