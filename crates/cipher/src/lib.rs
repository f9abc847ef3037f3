//! Every cryptographic algorithm that Strongroom uses, behind small types.
//!
//! This is the only crate with cryptographic foreign code: AWS-LC and libgcrypt, in the module `ffi`. An algorithm is
//! chosen only here. So a reviewer finds all cryptographic computations of the project here:
//!
//! - [`RecordCipher`] seals and opens the records of a dataset. It expands one data key once. Each record has a
//!   key of its own, derived from a 192-bit nonce ([`Suite`] says how).
//! - [`Random`] is the source of keys and nonces: [`SystemRandom`] in production, [`SeededRandom`] in
//!   tests and simulation.
//! - [`mac`], [`derive_key`] and [`keyed_hash64`] are BLAKE3 in its keyed and key-derivation modes,
//!   over encodings that cannot be confused.
//! - [`SectorCipher`] seals and opens the sectors of block devices, as dm-crypt and LUKS do. [`af`]
//!   spreads a key over many sectors. [`AnyLengthXts`] encrypts sectors of any length, as pefs does.
//! - [`NameCipher`] encrypts names without making them longer, as fscrypt does.
//! - [`AeadCipher`] seals messages with nonces of the caller, also in pieces and in streams.
//! - [`Digest`] computes hashes and authentication codes for the formats of other programs. [`PasswordHash`]
//!   makes keys from passphrases.
//! - [`RsaPublicKey`] reads a public key for a TPM.
//! - [`ChapHash`] answers the challenges of CHAP, with which iSCSI initiators log in.
//! - A [`Provider`] implements mechanisms. [`Policy`] chooses the provider of each [`Mechanism`].
//! - [`selftest()`] runs known-answer tests of the mechanisms that pools need, [`test_mechanisms`] of all.
//!   [`hardware()`] lists the processor features in use.
//!
//! # For other programs
//!
//! `examples/framework.rs` is a program that does all of this:
//!
//! - **Providers.** [`Mechanism::providers`] lists the implementations of a mechanism, the preferred one first.
//!   [`Policy::provider`] says which one serves it in this process.
//! - **Override.** A [`Policy`] disables a provider, or one mechanism of it, or all that is not approved
//!   ([`PolicyTarget::Fips`]). Install it before the first cipher: it does not change any more. `with_provider` of a type chooses
//!   for one key.
//! - **Self-tests.** [`test_mechanisms`] returns a result for each mechanism of each provider. Call it before the first use
//!   if your rules ask for it; nothing here calls it for you.
//! - **Fast paths.** The bulk functions work in place, on memory of any alignment, and allocate nothing. Expand a key once,
//!   and use it from any number of threads. `seal` and `open` with a second buffer copy nothing either.
//!
//! Versions follow Semantic Versioning. Before 1.0 a minor version may change the interface; a patch never does.
//! Names and numbers that are stored, such as those of [`Suite`] and [`SectorSpec`], keep their meaning in all
//! versions. So do the bytes that they make. Programs in C use the PKCS#11 modules of others.
//!
//! Functions named `*_pieces` seal and open data in several slices of any length and alignment. Hashes and MACs take
//! parts.
//!
//! What it guarantees:
//! - A failed authentication gives no detail ([`Error::Unauthentic`]).
//! - Keys and expanded keys are overwritten when they are dropped, and are never printed.
//! - Each mechanism has a known-answer test that a program can run ([`test_mechanisms`]).
//!
//! All sizes are bytes.
//!
//! Layers, lowest first:
//! - `algorithms`, `error`: the names of the algorithms, and the errors;
//! - `ffi`: foreign code;
//! - `provider`: which implementation of an algorithm is allowed, and runs on this processor;
//! - `block`, `hashes`, `public_key`: primitives;
//! - `sector`, `names`, `aead`, `record`, `random`, [`af`]: types for callers;
//! - `selftests`: known answers.

mod aead;
pub mod af;
mod algorithms;
mod block;
mod error;
mod ffi;
mod hashes;
mod names;
mod pieces;
mod provider;
mod public_key;
mod random;
mod record;
mod sector;
mod selftests;

pub use aead::AeadCipher;
pub use algorithms::{
    AeadAlgorithm, BlockCipher, Curve, Digest, DigestOutput, IvMode, Mechanism, NameMode, Provider,
    SectorMode, SectorSpec, Suite,
};
pub use block::{cfb_decrypt, cfb_encrypt};
pub use error::{Error, Result};
pub use hashes::{
    Argon2Kind, ChapHash, Mac, Padding, PasswordHash, Vmac, cmac, derive_key, derive_key_into, eq,
    hash, keyed_hash64, mac, siphash24, unwrap_key, wrap_key,
};
pub use names::NameCipher;
pub use provider::{Hardware, Policy, PolicyTarget, hardware, hwcap_setting};
pub use public_key::{
    KeyRecovery, PRIME_256, Point, RsaPublicKey, join_shares, share, split_secret, verify_ecdsa,
};
pub use random::{ENTROPY_MAX, NonceBatch, Random, SeededRandom, SystemRandom, kernel_entropy};
pub use record::{KEY_LEN_MAX, NONCE_LEN, RecordCipher, TAG_LEN};
pub use sector::SectorCipher;
pub use sector::any_length_xts::AnyLengthXts;
pub use selftests::{MechanismTest, SelfTest, selftest, test_mechanisms};

#[cfg(test)]
mod tests;
