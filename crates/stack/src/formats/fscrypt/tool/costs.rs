//! The cost of a guess at a passphrase: Argon2id.

use std::time::Duration;

use cipher::{Argon2Kind, PasswordHash};
use keys::Argon2Params;
use secret::{Key, Secret};

use super::error::{Result, damaged};
use super::wire::{self, MessageWriter};

/// The most memory that a file may ask for, in KiB: 4 GiB.
const MEMORY_MAX: i64 = 4 << 20;

/// The most memory of a new passphrase, in KiB, as the tool has it: logins hash too.
const MEMORY_NEW: u32 = 128 << 10;

/// The most work that a file may ask for, in KiB times passes: 256 GiB, some minutes.
const WORK_MAX: u64 = 1 << 28;

/// The most lanes: the tool takes one for each processor, and no more than these.
const LANES_MAX: i64 = 255;

/// Costs within bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Passes over the memory.
    pub time: u32,
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Parts that can be computed at the same time.
    pub lanes: u32,
    /// The number as it is written: old versions of the tool took only its low 8 bits.
    pub(super) parallelism: i64,
    pub(super) is_truncation_fixed: bool,
    unknown: Vec<u8>,
}

impl From<Argon2Params> for Costs {
    fn from(params: Argon2Params) -> Costs {
        Costs {
            time: params.iterations(),
            memory_kib: params.memory_kib(),
            lanes: params.lanes(),
            parallelism: params.lanes().into(),
            is_truncation_fixed: true,
            unknown: Vec::new(),
        }
    }
}

impl Costs {
    /// Costs that take about so long on this machine.
    ///
    /// # Errors
    /// Those of [`Argon2Params::calibrate_within`].
    pub fn calibrate(time: Duration) -> keys::Result<Costs> {
        Ok(Argon2Params::calibrate_within(time, MEMORY_NEW)?.into())
    }

    pub(super) fn new(
        time: i64,
        memory: i64,
        parallelism: i64,
        is_truncation_fixed: bool,
    ) -> Result<Costs> {
        let lanes = match is_truncation_fixed {
            true => parallelism,
            false => parallelism & 0xff,
        };
        if !(1..=LANES_MAX).contains(&lanes) || parallelism < 1 {
            return Err(damaged("the lanes of Argon2id are out of bounds"));
        }
        if !(8 * lanes..=MEMORY_MAX).contains(&memory) {
            return Err(damaged("the memory of Argon2id is out of bounds"));
        }
        let is_work = |time: i64| time >= 1 && time.checked_mul(memory).is_some();
        if !is_work(time) || (time * memory) as u64 > WORK_MAX {
            return Err(damaged("the passes of Argon2id are out of bounds"));
        }
        Ok(Costs {
            // All of them are below 2^29.
            time: time as u32,
            memory_kib: memory as u32,
            lanes: lanes as u32,
            parallelism,
            is_truncation_fixed,
            unknown: Vec::new(),
        })
    }

    pub(super) fn decode(message: &[u8]) -> Result<Costs> {
        let (mut time, mut memory, mut parallelism, mut fixed) = (0, 0, 0, false);
        let mut unknown = Vec::new();
        wire::read(message, |field| {
            match field.number {
                2 => time = field.number_value()?,
                3 => memory = field.number_value()?,
                4 => parallelism = field.number_value()?,
                5 => fixed = field.number_value()? != 0,
                _ => unknown.extend_from_slice(field.raw),
            }
            Ok(())
        })?;
        let costs = Costs::new(time, memory, parallelism, fixed)?;
        Ok(Costs { unknown, ..costs })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        MessageWriter::default()
            .number(2, self.time.into())
            .number(3, self.memory_kib.into())
            .number(4, self.parallelism)
            .number(5, self.is_truncation_fixed.into())
            .done(&self.unknown)
    }

    /// Hashes a passphrase, within the memory that all hashes of the process share.
    pub(super) fn hash(&self, passphrase: &Secret, salt: &[u8; 16]) -> Result<Key> {
        let hash = PasswordHash::Argon2 {
            kind: Argon2Kind::Argon2id,
            memory_kib: self.memory_kib,
            iterations: self.time,
            lanes: self.lanes,
        };
        let _memory = keys::hash_memory(self.memory_kib, self.time)?;
        Key::fill_with(|key| Ok(hash.derive(passphrase.expose(), salt, key)?))
    }
}
