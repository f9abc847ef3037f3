//! The foreign code: the few calls into AWS-LC that `aws-lc-rs` does not offer, AES-GCM of `ring`, Twofish of
//! libgcrypt, random numbers of the vDSO, and tweaks in vector registers, made safe here.
//!
//! This module and its children hold all the `unsafe` of the crate. Each function takes slices and
//! arrays, checks every length itself and returns a plain result, so nothing above it can get a
//! pointer wrong. Contexts live on the stack of the call that uses them, or where their owner keeps
//! them, and are wiped when they go, on every path (`library::Wiped`).
//!
//! AWS-LC keeps a queue of error descriptions per thread. It is emptied after each failure, so
//! that a stream of unauthentic records leaves nothing behind.
//!
//! What cannot be wiped from here: copies that the library makes in its own stack frames (AES-GCM
//! copies its GHASH table there).

#![allow(unsafe_code)]

mod aead;
mod aes;
mod buffers;
mod ccm;
mod evp;
mod gcm;
mod libgcrypt;
mod library;
mod md5;
mod number;
mod points;
#[cfg(test)]
mod process_copy;
mod ring;
mod rsa;
mod scrypt;
mod sector;
mod shamir;
mod tweak;
mod vdso;

pub(crate) use aead::Aead;
pub(crate) use aes::AesKey;
pub(crate) use buffers::{Buffers, TAG_LEN};
pub(crate) use ccm::Ccm;
pub(crate) use evp::Direction;
pub(crate) use gcm::GcmStream;
pub(crate) use libgcrypt::{Libgcrypt, TwofishKey};
pub(crate) use library::random_public;
pub(crate) use md5::md5;
pub(crate) use points::{add_multiple, multiples, subtract_multiple};
pub(crate) use ring::RingGcm;
pub(crate) use rsa::rsa_numbers;
pub(crate) use scrypt::scrypt;
pub(crate) use sector::{CbcKey, Ecb, Xts256};
pub(crate) use shamir::{value_at, value_at_zero};
pub(crate) use tweak::Tweak;
pub(crate) use vdso::getrandom as vdso_getrandom;
