//! Every cryptographic algorithm that Strongroom uses, behind small types.
//!
//! This is the only crate with cryptographic foreign code (AWS-LC, in the module `ffi`), and the only
//! place where an algorithm is chosen, so a reviewer reads this crate and knows what the project
//! computes. What it offers:
//!
//! - [`RecordCipher`] seals and opens the records of a dataset. One data key, expanded once; a key of
//!   its own for each record, derived from a 192-bit nonce ([`Suite`] says how).
//! - [`Random`] is where keys and nonces come from; [`SystemRandom`] in earnest, [`SeededRandom`] in
//!   tests and simulation.
//! - [`mac`], [`derive_key`] and [`keyed_hash64`] are BLAKE3 in its keyed and key-derivation modes,
//!   over encodings that cannot be confused.
//! - [`SectorCipher`] seals and opens the sectors of block devices, as dm-crypt and LUKS do; [`af`]
//!   spreads a key over many sectors.
//!   [`XtsCipher`] does those of any length, as pefs has.
//! - [`NameCipher`] encrypts names without making them longer, as fscrypt does.
//! - [`AeadCipher`] seals messages whose nonces the caller has, in pieces and in streams too.
//! - [`Digest`] hashes and authenticates with the hashes of others' formats, and [`PasswordHash`]
//!   makes keys from passphrases.
//! - [`ChapHash`] answers the challenges of CHAP, by which initiators of iSCSI log in.
//! - [`Provider`]s compute, and [`Policy`] says which of them serves a [`Mechanism`].
//! - [`selftest()`] runs a known-answer test of what pools need, [`test_mechanisms`] of everything; [`hardware()`] says which processor
//!   features are in use.
//!
//! What is sealed and opened may lie in several places (`*_pieces`): slices of any length and alignment,
//! in place of one. Hashes and MACs take parts.
//!
//! What it guarantees:
//! - A failure of authentication carries no detail ([`Error::Unauthentic`]).
//! - Keys and expanded keys are overwritten when they go, and are never printed.
//! - Each mechanism has a test with known answers that a program can run ([`test_mechanisms`]).
//!
//! All sizes are bytes.
//!
//! Layers, lowest first:
//! - `algorithms`: what is computed, by name;
//! - `error`, `ffi`, `hash`, `policy`, `pieces`: AWS-LC, BLAKE3, and which provider is allowed;
//! - `digest`, `kdf`, `blocks`, `openssl`, `sector`: providers and what they compute;
//! - `record`, `random`, `aead`, `names`, `stealing`, `password`, `chap`, `keywrap`, `vmac`, [`af`]: what callers use;
//! - `hardware`, `selftest`, `kat`: tests, and what the processor has.

mod aead;
pub mod af;
mod algorithms;
mod blocks;
mod chap;
mod digest;
mod error;
mod ffi;
mod hardware;
mod hash;
mod kat;
mod kdf;
mod keywrap;
mod names;
mod openssl;
mod password;
mod per_thread;
mod pieces;
mod policy;
mod random;
mod record;
mod sector;
mod selftest;
mod stealing;
mod vmac;

pub use aead::AeadCipher;
pub use algorithms::{
    AeadAlgorithm, BlockCipher, Digest, IvMode, Mechanism, NameMode, Output, Provider, SectorMode,
    SectorSpec, Suite,
};
pub use chap::ChapHash;
pub use error::{Error, Result};
pub use hardware::{Hardware, hardware, hwcap_setting};
pub use hash::{Mac, derive_key, derive_key_into, eq, hash, keyed_hash64, mac, siphash24};
pub use kat::{MechanismTest, test_mechanisms};
pub use keywrap::{Padding, cmac, unwrap_key, wrap_key};
pub use names::NameCipher;
pub use password::{Argon2Kind, PasswordHash};
pub use policy::{Policy, Target};
pub use random::{Random, SeededRandom, SystemRandom};
pub use record::{KEY_LEN_MAX, NONCE_LEN, RecordCipher, TAG_LEN};
pub use sector::SectorCipher;
pub use selftest::{SelfTest, selftest};
pub use stealing::XtsCipher;
pub use vmac::Vmac;

#[cfg(test)]
mod tests;
