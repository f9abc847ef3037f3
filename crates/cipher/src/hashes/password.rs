//! Keys from passphrases: Argon2 (RFC 9106, version 0x13), PBKDF2 (RFC 8018) and scrypt (RFC 7914).
//!
//! This computes what it is asked for. The caller decides how much a guess must cost, and how much a header may ask
//! for. For datasets that is the crate `keys`, for LUKS and gocryptfs their headers.

use std::num::NonZeroU32;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::Zeroize;

use crate::ffi::scrypt;
use crate::provider::policy;
use crate::{Digest, Error, Mechanism, Result};

/// The variants of Argon2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argon2Kind {
    /// Memory is read in an order that does not depend on the passphrase.
    Argon2i,
    /// The first half of the first pass as Argon2i, the rest in an order that does depend on it.
    Argon2id,
}

impl Argon2Kind {
    /// A refusal that says which Argon2 is refused.
    fn named(self, error: Error) -> Error {
        match error {
            Error::NotApproved { mechanism, .. } => Error::NotApproved {
                mechanism,
                algorithm: match self {
                    Argon2Kind::Argon2i => "Argon2i, the hash of the passphrase,",
                    Argon2Kind::Argon2id => "Argon2id, the hash of the passphrase,",
                },
            },
            other => other,
        }
    }
}

/// A password hash with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordHash {
    /// PBKDF2 with HMAC.
    Pbkdf2 {
        /// The hash of the HMAC.
        digest: Digest,
        /// The number of iterations; not 0.
        iterations: u32,
    },
    /// Argon2.
    Argon2 {
        /// The variant.
        kind: Argon2Kind,
        /// The memory, in KiB; at least 8 for each lane.
        memory_kib: u32,
        /// The passes over the memory; not 0.
        iterations: u32,
        /// The number of lanes that can be computed in parallel, from 1 to 2^24 - 1.
        lanes: u32,
    },
    /// scrypt.
    Scrypt {
        /// The binary logarithm of N: how often a block is mixed, and how many are kept.
        log_n: u8,
        /// The size of a block, in units of 128 bytes; not 0.
        r: u32,
        /// The number of repetitions of all of it; not 0.
        p: u32,
    },
}

impl PasswordHash {
    /// Refuses what the policy forbids, without computing anything.
    ///
    /// # Errors
    /// [`Error::NotApproved`] in FIPS mode.
    pub fn check(&self) -> Result<()> {
        match *self {
            PasswordHash::Pbkdf2 { digest, .. } => digest.check(),
            PasswordHash::Argon2 { kind, .. } => policy::provider(Mechanism::Argon2)
                .map(drop)
                .map_err(|error| kind.named(error)),
            PasswordHash::Scrypt { .. } => policy::provider(Mechanism::Scrypt).map(drop),
        }
    }

    /// Hashes `password` to `key`, of any length (Argon2: 4 bytes and more).
    ///
    /// # Errors
    /// [`Error::NotApproved`] in FIPS mode; [`Error::PasswordHash`] for parameters, or a salt or key of a
    /// length, that the algorithm does not have; [`Error::Memory`], or for scrypt [`Error::PasswordHash`] too,
    /// without the memory.
    pub fn derive(&self, password: &[u8], salt: &[u8], key: &mut [u8]) -> Result<()> {
        self.check()?;
        match *self {
            PasswordHash::Pbkdf2 { digest, iterations } => {
                let iterations =
                    NonZeroU32::new(iterations).ok_or(Error::PasswordHash("no iterations"))?;
                if key.is_empty() {
                    return Err(Error::PasswordHash("no output"));
                }
                digest.pbkdf2(password, salt, iterations, key);
                Ok(())
            }
            PasswordHash::Argon2 {
                kind,
                memory_kib,
                iterations,
                lanes,
            } => {
                let params = Params::new(memory_kib, iterations, lanes, Some(key.len()))
                    .map_err(|_| Error::PasswordHash("outside of what Argon2 has"))?;
                argon2(kind, params, password, salt, key)
            }
            PasswordHash::Scrypt { log_n, r, p } => {
                let refused = Error::PasswordHash("outside of what scrypt has");
                let n = 1u64.checked_shl(log_n.into()).ok_or(refused)?;
                scrypt(password, salt, (n, r, p), key)
            }
        }
    }
}

fn argon2(
    kind: Argon2Kind,
    params: Params,
    password: &[u8],
    salt: &[u8],
    key: &mut [u8],
) -> Result<()> {
    let algorithm = match kind {
        Argon2Kind::Argon2i => Algorithm::Argon2i,
        Argon2Kind::Argon2id => Algorithm::Argon2id,
    };
    let memory_kib = params.m_cost();
    let mut memory = ArgonMemory::new(params.block_count()).ok_or(Error::Memory { memory_kib })?;
    Argon2::new(algorithm, Version::V0x13, params)
        .hash_password_into_with_memory(password, salt, key, &mut memory.0)
        .map_err(|_| Error::PasswordHash("the salt is too short or too long for Argon2"))
}

/// The blocks of one hash, wiped on drop: with them, an attacker could test guesses without the cost.
struct ArgonMemory(Vec<Block>);

impl ArgonMemory {
    fn new(blocks: usize) -> Option<ArgonMemory> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(blocks).ok()?;
        memory.resize(blocks, Block::new());
        Some(ArgonMemory(memory))
    }
}

impl Drop for ArgonMemory {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Block::zeroize);
    }
}
