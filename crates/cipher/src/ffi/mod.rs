//! The foreign code: the few calls into AWS-LC that `aws-lc-rs` does not offer, made safe here.
//!
//! This module and its children hold all the `unsafe` of the crate. Each function takes slices and
//! arrays, checks every length itself and returns a plain result, so nothing above it can get a
//! pointer wrong. Contexts live on the stack of the call that uses them, or where their owner keeps
//! them, and are wiped when they go, on every path ([`Wiped`]).
//!
//! The library keeps a queue of error descriptions per thread. It is emptied after each failure, so
//! that a stream of unauthentic records leaves nothing behind.
//!
//! What cannot be wiped from here: copies that the library makes in its own stack frames (AES-GCM
//! copies its GHASH table there).

#![allow(unsafe_code)]

mod aead;
mod aes;
mod ccm;
mod evp;
mod fork;
mod gcm;
mod sector;

use std::mem::MaybeUninit;

use aws_lc_sys as sys;

use crate::{Error, Result};

pub(crate) use aead::Aead;
pub(crate) use aes::AesKey;
pub(crate) use ccm::Ccm;
pub(crate) use evp::Direction;
pub(crate) use fork::generation as fork_generation;
pub(crate) use gcm::GcmStream;
pub(crate) use sector::{CbcKey, Ecb, Xts256};

/// The length of an authentication tag. No suite truncates it.
pub(crate) const TAG_LEN: usize = 16;

/// Input and output of a cipher: two buffers of one length, or one buffer for both.
pub(crate) enum Buffers<'a> {
    /// Reads the first, writes the second.
    Apart(&'a [u8], &'a mut [u8]),
    /// Overwrites its input.
    InPlace(&'a mut [u8]),
}

impl Buffers<'_> {
    /// How long the input is.
    pub(crate) fn input_len(&self) -> usize {
        match self {
            Buffers::Apart(input, _) => input.len(),
            Buffers::InPlace(data) => data.len(),
        }
    }

    /// How long the output is.
    pub(crate) fn output_len(&self) -> usize {
        match self {
            Buffers::Apart(_, output) => output.len(),
            Buffers::InPlace(data) => data.len(),
        }
    }

    /// Input, output and the length of both.
    ///
    /// The pointers are valid for that length for as long as the borrow, and are equal or do not
    /// overlap (a shared and an exclusive borrow never do): what AWS-LC asks of `in` and `out`.
    fn pointers(&mut self) -> Result<(*const u8, *mut u8, usize)> {
        match self {
            Buffers::Apart(input, output) if input.len() != output.len() => {
                Err(Error::OutputLength {
                    input: input.len(),
                    output: output.len(),
                })
            }
            Buffers::Apart(input, output) => Ok((input.as_ptr(), output.as_mut_ptr(), input.len())),
            Buffers::InPlace(data) => {
                let output = data.as_mut_ptr();
                Ok((output.cast_const(), output, data.len()))
            }
        }
    }

    /// Zeroes the output: nobody may see plaintext that was not authenticated.
    pub(crate) fn wipe_output(&mut self) {
        match self {
            Buffers::Apart(_, output) => output.fill(0),
            Buffers::InPlace(data) => data.fill(0),
        }
    }
}

/// A C structure on the stack, uninitialised at first, overwritten with zeros when it goes.
struct Wiped<T>(MaybeUninit<T>);

impl<T: Copy> Wiped<T> {
    const fn uninit() -> Wiped<T> {
        Wiped(MaybeUninit::uninit())
    }

    fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }

    fn as_mut_ptr(&mut self) -> *mut T {
        self.0.as_mut_ptr()
    }
}

impl<T> Drop for Wiped<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer and the length are those of our own field, which needs no Drop (it is
        // MaybeUninit) and which any bytes are valid for.
        unsafe { sys::OPENSSL_cleanse(self.0.as_mut_ptr().cast(), size_of::<T>()) }
    }
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
fn check(done: std::ffi::c_int, error: Error) -> Result<()> {
    if done == 1 {
        return Ok(());
    }
    // SAFETY: no arguments, no preconditions.
    unsafe { sys::ERR_clear_error() };
    Err(error)
}
