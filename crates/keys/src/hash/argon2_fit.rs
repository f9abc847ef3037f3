//! The cost of a new slot, fitted to this machine: as much memory as the time allows, then more passes.
//!
//! Memory comes first because an attacker pays for it in each of many guesses at a time. Passes cost an attacker's
//! chips no more than this processor.

use std::time::{Duration, Instant};

use cipher::{Argon2Kind, PasswordHash};

use crate::hash::budget;
use crate::hash::queue::MEMORY_KIB_LEAST;
use crate::{Error, Result};

/// The most passes of a new slot.
const PASSES_MAX: u32 = 1 << 16;

/// A longer measurement would say no more, where the time for a try is longer.
const MEASUREMENT: Duration = Duration::from_millis(250);

/// The cost of one hash with Argon2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Parts that can be computed at the same time.
    pub lanes: u32,
}

/// The wanted cost of a new slot.
#[derive(Clone, Copy, Debug)]
pub struct Argon2Fit {
    /// The variant of Argon2.
    pub kind: Argon2Kind,
    /// The time of one hash on this machine.
    pub time: Duration,
    /// The fewest passes.
    pub passes_min: u32,
    /// The most memory, in KiB. It is less where the machine has little.
    pub memory_kib_max: u32,
    /// The number of lanes: one for each processor, and at most four, if not given.
    pub lanes: Option<u32>,
}

impl Argon2Fit {
    /// The number of lanes.
    pub fn lanes(&self) -> u32 {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        self.lanes.unwrap_or(processors.min(4))
    }

    /// The most memory, in KiB, on this machine.
    pub fn memory_kib(&self) -> u32 {
        let machine = budget::new_slot_memory_kib();
        self.memory_kib_max
            .min(machine)
            .max(self.lanes().saturating_mul(8))
    }

    /// Measures this machine, for at most about the time of one hash, and returns the cost that takes the time.
    ///
    /// # Errors
    /// [`Error::KdfMemory`]; [`Error::Cipher`] where FIPS mode refuses it; those of the queue of hashes.
    pub fn measure(&self) -> Result<Argon2Cost> {
        let lanes = self.lanes();
        let most = self.memory_kib();
        let mut probe = Argon2Cost {
            memory_kib: most.min(MEMORY_KIB_LEAST),
            passes: self.passes_min,
            lanes,
        };
        // Ever longer runs, until one is long enough for a moment's disturbance not to matter.
        let long_enough = (self.time / 4).min(MEASUREMENT);
        let mut took = self.time_of(probe)?;
        while took < long_enough && probe.passes < PASSES_MAX / 2 {
            probe.passes *= 2;
            took = self.time_of(probe)?;
        }
        let (memory_kib, passes) = self.share(took, probe, most);
        Ok(Argon2Cost {
            memory_kib,
            passes,
            lanes,
        })
    }

    fn share(&self, took: Duration, probe: Argon2Cost, most: u32) -> (u32, u32) {
        let work = u128::from(probe.memory_kib) * u128::from(probe.passes);
        let budget = work.saturating_mul(self.time.as_nanos()) / took.as_nanos().max(1);
        let memory = budget / u128::from(self.passes_min);
        let memory = memory.clamp(u128::from(probe.memory_kib), u128::from(most));
        let passes = (budget / memory).clamp(self.passes_min.into(), PASSES_MAX.into());
        (memory as u32, passes as u32)
    }

    fn time_of(&self, cost: Argon2Cost) -> Result<Duration> {
        timed_hash(self.kind, cost, b"a measurement", &[0; 32], &mut [0; 32])
    }
}

/// Hashes, and returns the time without the wait for its turn. Other users must not make new slots cheaper.
pub(crate) fn timed_hash(
    kind: Argon2Kind,
    cost: Argon2Cost,
    passphrase: &[u8],
    salt: &[u8],
    key: &mut [u8],
) -> Result<Duration> {
    let hash = PasswordHash::Argon2 {
        kind,
        memory_kib: cost.memory_kib,
        iterations: cost.passes,
        lanes: cost.lanes,
    };
    let _memory = budget::hash_memory(cost.memory_kib, cost.passes)?;
    let start = Instant::now();
    let hashed = hash.derive(passphrase, salt, key);
    let took = start.elapsed();
    hashed.map(|()| took).map_err(|error| match error {
        cipher::Error::Memory { memory_kib } => Error::KdfMemory { memory_kib },
        cipher::Error::PasswordHash(_) => Error::KdfParams("Argon2 refuses them"),
        other => Error::Cipher(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(time: Duration, memory_kib_max: u32) -> Argon2Fit {
        Argon2Fit {
            kind: Argon2Kind::Argon2id,
            time,
            passes_min: 3,
            memory_kib_max,
            lanes: Some(1),
        }
    }

    #[test]
    fn memory_comes_before_passes() {
        let probe = Argon2Cost {
            memory_kib: 64 << 10,
            passes: 3,
            lanes: 1,
        };
        let took = Duration::from_millis(100);
        for (time_ms, most, expected) in [
            (0, 1 << 20, (64 << 10, 3)),
            (100, 1 << 20, (64 << 10, 3)),
            (200, 1 << 20, (128 << 10, 3)),
            (1600, 1 << 20, (1 << 20, 3)),
            (16_000, 1 << 20, (1 << 20, 30)),
            // A small machine pays with passes.
            (1600, 64 << 10, (64 << 10, 48)),
            (1600, 128 << 10, (128 << 10, 24)),
        ] {
            let fit = fit(Duration::from_millis(time_ms), most);
            assert_eq!(fit.share(took, probe, most), expected, "{time_ms} ms");
        }
        let (memory, passes) = fit(Duration::MAX, 1 << 20).share(took, probe, 1 << 20);
        assert_eq!((memory, passes), (1 << 20, PASSES_MAX));
    }

    #[test]
    fn a_measurement_keeps_its_bounds() {
        let measured = fit(Duration::from_millis(1), 1 << 10)
            .measure()
            .expect("memory");
        assert_eq!((measured.memory_kib, measured.lanes), (1 << 10, 1));
        assert!(measured.passes >= 3);
    }
}
