//! The foreign code, made safe here. It is the few calls into AWS-LC that `aws-lc-rs` does not offer, AES-GCM of
//! `ring`, and Twofish of libgcrypt. There are also random numbers of the vDSO, and tweaks in vector registers.
//!
//! This module and its children hold all the `unsafe` of the crate. Each function takes slices and arrays, checks
//! every length itself and returns a plain result. So nothing above it can get a pointer wrong. Contexts live on the
//! stack of the call that uses them, or where their owner keeps them. They are wiped when they go, on every path
//! (`library::WipedCell`).
//!
//! Parts: `block` (block ciphers and sectors), `messages` (authenticated encryption), `numbers` (public keys and shared
//! secrets). Beside them: `library`, `evp` and `buffers`, which they share, hashes, random numbers and libgcrypt.
//!
//! AWS-LC keeps a queue of error descriptions per thread. It is emptied after each failure, so
//! that a stream of unauthentic records leaves nothing behind.
//!
//! Copies that the library makes in its own stack frames cannot be wiped from here. AES-GCM copies its GHASH table
//! there.

#![allow(unsafe_code)]

mod block;
mod buffers;
mod evp;
mod libgcrypt;
mod library;
mod md5;
mod messages;
mod numbers;
#[cfg(test)]
mod process_copy;
mod scrypt;
mod vdso;

pub(crate) use block::{AesKey, CbcKey, Ecb, TweakElement, Xts256};
pub(crate) use buffers::{AeadBuffers, TAG_LEN};
pub(crate) use evp::Direction;
pub(crate) use libgcrypt::{Libgcrypt, TwofishKey};
pub(crate) use library::random_public;
pub(crate) use md5::md5;
pub(crate) use messages::{Aead, Ccm, GcmStream, RingGcm};
pub(crate) use numbers::{
    add_multiple, multiples, rsa_numbers, subtract_multiple, value_at, value_at_zero,
};
pub(crate) use scrypt::scrypt;
pub(crate) use vdso::getrandom as vdso_getrandom;
