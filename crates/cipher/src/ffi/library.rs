//! The helpers of all calls into AWS-LC, and its random generator.

use std::mem::MaybeUninit;

use aws_lc_sys as sys;

use crate::{Error, Result};

/// A structure on the stack, uninitialised at first, overwritten with zeros when it goes.
pub(super) struct WipedCell<T>(MaybeUninit<T>);

impl<T> WipedCell<T> {
    pub(super) const fn uninit() -> WipedCell<T> {
        const { assert!(!std::mem::needs_drop::<T>()) }
        WipedCell(MaybeUninit::uninit())
    }

    pub(super) fn write(&mut self, value: T) -> &T {
        self.0.write(value)
    }

    pub(super) fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut T {
        self.0.as_mut_ptr()
    }
}

impl<T> Drop for WipedCell<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer and the length are those of our own field, which needs no Drop (it is
        // MaybeUninit) and which any bytes are valid for.
        unsafe { sys::OPENSSL_cleanse(self.0.as_mut_ptr().cast(), size_of::<T>()) }
    }
}

/// Overwrites what functions that were called before have left on the stack, down to 8 KiB. Those of `ring` that expand a
/// key need some 4 KiB.
#[inline(never)]
pub(super) fn wipe_stack() {
    drop(WipedCell::<[u8; 8192]>::uninit());
}

/// Fills `out` from the library's generator for public values (nonces), which shares no state with
/// the one for keys.
pub(crate) fn random_public(out: &mut [u8]) -> Result<()> {
    // SAFETY: the pointer is valid for writes of the length.
    let done = unsafe { sys::RAND_public_bytes(out.as_mut_ptr(), out.len()) };
    if done == 1 {
        Ok(())
    } else {
        Err(Error::Random)
    }
}

/// Turns the library's return value (1 is success) into a result.
pub(super) fn check(done: std::ffi::c_int, error: Error) -> Result<()> {
    if done == 1 {
        return Ok(());
    }
    // SAFETY: no arguments, no preconditions.
    unsafe { sys::ERR_clear_error() };
    Err(error)
}
