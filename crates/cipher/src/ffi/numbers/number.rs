//! Secret numbers of any size.

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use crate::ffi::library::check;
use crate::{Error, Result};

/// A secret number, which is wiped when it goes.
pub(super) struct Number(*mut sys::BIGNUM);

/// The memory in which the library computes. It wipes all that it frees.
pub(super) struct NumberContext(*mut sys::BN_CTX);

impl Number {
    /// Reads a number that is written big-endian; no bytes are 0.
    pub(super) fn read(bytes: &[u8]) -> Result<Number> {
        // SAFETY: the bytes are readable for their length; with null the library makes a new number.
        let raw = unsafe { sys::BN_bin2bn(bytes.as_ptr(), bytes.len(), std::ptr::null_mut()) };
        match raw.is_null() {
            true => Err(Error::Library),
            false => Ok(Number(raw)),
        }
    }

    /// Writes it big-endian with so many bytes.
    pub(super) fn write(&self, len: usize) -> Result<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        // SAFETY: the number lives; the bytes are writable for their length.
        let done = unsafe { sys::BN_bn2bin_padded(bytes.as_mut_ptr(), bytes.len(), self.0) };
        check(done, Error::Library)?;
        Ok(bytes)
    }

    pub(super) fn raw(&self) -> *mut sys::BIGNUM {
        self.0
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nothing else has it.
        unsafe { sys::BN_clear_free(self.0) }
    }
}

impl NumberContext {
    pub(super) fn new() -> Result<NumberContext> {
        // SAFETY: no arguments.
        let raw = unsafe { sys::BN_CTX_new() };
        match raw.is_null() {
            true => Err(Error::Library),
            false => Ok(NumberContext(raw)),
        }
    }

    pub(super) fn raw(&self) -> *mut sys::BN_CTX {
        self.0
    }
}

impl Drop for NumberContext {
    fn drop(&mut self) {
        // SAFETY: as for numbers.
        unsafe { sys::BN_CTX_free(self.0) }
    }
}
