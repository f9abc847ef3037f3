//! The cost of a guess at the passphrase of a slot: Argon2id, or PBKDF2 in FIPS mode.

use std::fmt;
use std::time::Duration;

use cipher::Policy;
use secret::Secret;

use crate::hash::pbkdf2;
use crate::{Argon2Params, Error, Pbkdf2Params, Result};

/// A password hash of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotHash {
    /// Argon2id.
    Argon2id,
    /// PBKDF2 with HMAC.
    Pbkdf2,
}

impl SlotHash {
    /// The hash of a new slot without another choice: Argon2id, and PBKDF2 where FIPS mode is on.
    pub fn usual() -> SlotHash {
        match Policy::current().is_fips() {
            true => SlotHash::Pbkdf2,
            false => SlotHash::Argon2id,
        }
    }
}

/// The password hash of a slot, and its cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GuessCost {
    /// Argon2id.
    Argon2id(Argon2Params),
    /// PBKDF2 with HMAC.
    Pbkdf2(Pbkdf2Params),
}

impl GuessCost {
    /// The cost of a new slot whose hash takes about `target` on this machine.
    ///
    /// # Errors
    /// Those of [`Argon2Params::calibrate`] and [`Pbkdf2Params::calibrate`].
    pub fn calibrate(hash: SlotHash, target: Duration) -> Result<GuessCost> {
        Ok(match hash {
            SlotHash::Argon2id => GuessCost::Argon2id(Argon2Params::calibrate(target)?),
            SlotHash::Pbkdf2 => GuessCost::Pbkdf2(Pbkdf2Params::calibrate(target)?),
        })
    }

    /// Refuses to protect a new slot with less than the policy asks for.
    pub(crate) fn check_for_new_slot(&self) -> Result<()> {
        match self {
            GuessCost::Argon2id(params) => params.check_for_new_slot(),
            GuessCost::Pbkdf2(params) => params.check_policy(),
        }
    }

    /// The work of one try: memory in KiB times passes. An iteration of PBKDF2 counts as much as a pass over 1 KiB.
    pub(crate) fn work(&self) -> u64 {
        match self {
            GuessCost::Argon2id(params) => params.work(),
            GuessCost::Pbkdf2(params) => params.iterations().into(),
        }
    }

    /// Hashes `passphrase` to `key`.
    ///
    /// # Errors
    /// [`Error::FipsSlot`] for Argon2id in FIPS mode.
    pub(crate) fn derive(
        &self,
        passphrase: &Secret,
        salt: &[u8; 32],
        key: &mut [u8; 32],
    ) -> Result<()> {
        match self {
            GuessCost::Argon2id(params) => {
                let hashed = params.hash(passphrase.expose(), salt, key);
                hashed.map_err(|error| match error {
                    Error::Cipher(cipher::Error::NotApproved { .. }) => Error::FipsSlot,
                    other => other,
                })
            }
            GuessCost::Pbkdf2(params) => {
                let (digest, iterations) = (params.digest(), params.iterations());
                pbkdf2::hash(digest, iterations, passphrase.expose(), salt, key)
            }
        }
    }
}

impl From<&Argon2Params> for GuessCost {
    fn from(params: &Argon2Params) -> GuessCost {
        GuessCost::Argon2id(*params)
    }
}

impl fmt::Debug for GuessCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuessCost::Argon2id(params) => params.fmt(f),
            GuessCost::Pbkdf2(params) => params.fmt(f),
        }
    }
}

impl fmt::Display for GuessCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuessCost::Argon2id(params) => write!(
                f,
                "argon2id {} MiB, {} passes, {} lanes",
                params.memory_kib() >> 10,
                params.iterations(),
                params.lanes()
            ),
            GuessCost::Pbkdf2(params) => write!(
                f,
                "pbkdf2-{} {} iterations",
                params.digest().name(),
                params.iterations()
            ),
        }
    }
}
