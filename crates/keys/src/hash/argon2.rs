//! The password hash: Argon2id, RFC 9106, version 0x13.
//!
//! Two sets of bounds, for two purposes. *New* parameters cost an attacker at least 64 MiB and three passes per
//! guess, and more where the machine has it. This is the second recommendation of RFC 9106 (section 4). Only tests
//! can ask for less. *Stored* parameters are accepted in any shape that Argon2 has, so that old and foreign
//! keyrings open. A header past the bounds can only be damaged, or made to exhaust the machine.

use std::fmt;
use std::time::Duration;

use cipher::Argon2Kind;

use crate::hash::argon2_fit::{Argon2Cost, Argon2Fit, timed_hash};
use crate::hash::queue::MEMORY_KIB_LEAST;
use crate::{Error, Result};

/// The fewest passes of a new slot.
const ITERATIONS_POLICY: u32 = 3;

/// The most memory of a new slot, in KiB: 1 GiB, as cryptsetup has it.
const MEMORY_KIB_NEW: u32 = 1 << 20;

/// The most memory that a stored slot may ask for, in KiB: 4 GiB.
const MEMORY_KIB_MAX: u32 = 4 << 20;

/// The most passes that a stored slot may ask for.
const ITERATIONS_MAX: u32 = 1 << 16;

/// The most lanes that a stored slot may ask for.
const LANES_MAX: u32 = 64;

/// The most work that a stored slot may ask for, in KiB times passes: 256 GiB, some minutes.
pub(crate) const WORK_MAX: u64 = 1 << 28;

/// The most lanes of new parameters.
const LANES_NEW: u32 = 4;

/// The cost of a guess at a passphrase.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Argon2Params {
    memory_kib: u32,
    iterations: u32,
    lanes: u32,
}

impl Argon2Params {
    /// 64 MiB, 3 passes, 4 lanes: the second recommendation of RFC 9106, section 4. What
    /// [`Argon2Params::calibrate`] gives on a slow machine.
    pub const RECOMMENDED: Argon2Params = Argon2Params {
        memory_kib: MEMORY_KIB_LEAST,
        iterations: ITERATIONS_POLICY,
        lanes: LANES_NEW,
    };

    /// Parameters for new slots.
    ///
    /// # Errors
    /// [`Error::KdfParams`] below 64 MiB or 3 passes, or above 4 GiB, 65,536 passes, 64 lanes or
    /// 256 GiB of memory times passes.
    pub fn new(memory_kib: u32, iterations: u32, lanes: u32) -> Result<Argon2Params> {
        let params =
            Argon2Params::stored(memory_kib, iterations, lanes).map_err(Error::KdfParams)?;
        params.check_policy()?;
        Ok(params)
    }

    /// The cheapest parameters that Argon2 has: 8 KiB, one pass. **No protection at all**; for tests
    /// that unlock many times. They are the only ones below the policy that slots can be made with.
    pub const fn insecure_for_tests() -> Argon2Params {
        Argon2Params {
            memory_kib: 8,
            iterations: 1,
            lanes: 1,
        }
    }

    /// Parameters as read from storage, or why they cannot be honest.
    pub(crate) fn stored(
        memory_kib: u32,
        iterations: u32,
        lanes: u32,
    ) -> std::result::Result<Argon2Params, &'static str> {
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err("Argon2id lanes");
        }
        if !(8 * lanes..=MEMORY_KIB_MAX).contains(&memory_kib) {
            return Err("Argon2id memory");
        }
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err("Argon2id iterations");
        }
        if u64::from(memory_kib) * u64::from(iterations) > WORK_MAX {
            return Err("Argon2id memory times iterations");
        }
        Ok(Argon2Params {
            memory_kib,
            iterations,
            lanes,
        })
    }

    /// Refuses to protect a new slot with less than the policy asks for.
    pub(crate) fn check_for_new_slot(&self) -> Result<()> {
        if *self == Argon2Params::insecure_for_tests() {
            return Ok(());
        }
        self.check_policy()
    }

    fn check_policy(&self) -> Result<()> {
        if self.memory_kib < MEMORY_KIB_LEAST {
            return Err(Error::KdfParams("new slots take at least 64 MiB of memory"));
        }
        if self.iterations < ITERATIONS_POLICY {
            return Err(Error::KdfParams("new slots take at least 3 iterations"));
        }
        Ok(())
    }

    /// Parameters that take about `target` on this machine: as much memory as that allows, and then more passes.
    /// The memory is at most 1 GiB and a share of this machine's. There is one lane per processor, up to 4. At
    /// least [`Argon2Params::RECOMMENDED`].
    ///
    /// Measures for about as long as `target` itself.
    ///
    /// # Errors
    /// [`Error::KdfMemory`].
    pub fn calibrate(target: Duration) -> Result<Argon2Params> {
        Argon2Params::calibrate_within(target, MEMORY_KIB_NEW)
    }

    /// Calibrates like [`Argon2Params::calibrate`], with a limit of the memory.
    ///
    /// # Errors
    /// As for [`Argon2Params::calibrate`].
    pub fn calibrate_within(target: Duration, memory_kib: u32) -> Result<Argon2Params> {
        let fit = Argon2Fit {
            kind: Argon2Kind::Argon2id,
            time: target,
            passes_min: ITERATIONS_POLICY,
            memory_kib_max: memory_kib,
            lanes: None,
        };
        let cost = fit.measure()?;
        let memory_kib = cost.memory_kib.max(MEMORY_KIB_LEAST);
        let most = (WORK_MAX / u64::from(memory_kib)) as u32;
        Ok(Argon2Params {
            memory_kib,
            iterations: cost.passes.min(most),
            lanes: cost.lanes,
        })
    }

    /// Memory times passes of one try, in KiB.
    pub(crate) fn work(&self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.iterations)
    }

    /// The memory of a hash, in KiB.
    pub fn memory_kib(&self) -> u32 {
        self.memory_kib
    }

    /// The passes over the memory.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// The lanes that can be computed in parallel.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Hashes `passphrase` to `key`.
    pub(crate) fn hash(
        &self,
        passphrase: &[u8],
        salt: &[u8; 32],
        key: &mut [u8; 32],
    ) -> Result<()> {
        let cost = Argon2Cost {
            memory_kib: self.memory_kib,
            passes: self.iterations,
            lanes: self.lanes,
        };
        timed_hash(Argon2Kind::Argon2id, cost, passphrase, salt, key).map(drop)
    }
}

impl fmt::Debug for Argon2Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Argon2Params {
            memory_kib,
            iterations,
            lanes,
        } = self;
        write!(f, "argon2id(m={memory_kib} KiB, t={iterations}, p={lanes})")
    }
}

impl fmt::Display for Argon2Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with the reference implementation, libargon2: `argon2id_hash_raw` with t = 2,
    /// m = 256 KiB, p = 2.
    #[test]
    fn is_argon2id() {
        let params = Argon2Params::stored(256, 2, 2).expect("in bounds");
        let mut key = [0; 32];
        params
            .hash(
                b"correct horse",
                b"0123456789abcdef0123456789abcdef",
                &mut key,
            )
            .expect("hash");
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "551934e111a94ee05ba9e533b5af7ee1908ebb48148aca75ac0fe6c724db81cd"
        );
    }

    #[test]
    fn bounds_of_what_is_read() {
        let max = 4 << 20;
        for (memory, iterations, lanes, ok) in [
            (8, 1, 1, true),
            (7, 1, 1, false),
            (0, 1, 1, false),
            (512, 1, 64, true),
            (511, 1, 64, false),
            (1 << 20, 1, 65, false),
            (1 << 20, 1, 0, false),
            (1 << 20, 0, 1, false),
            (max, 1, 4, true),
            (max + 1, 1, 4, false),
            (u32::MAX, u32::MAX, u32::MAX, false),
            (4096, 1 << 16, 1, true),
            (4097, 1 << 16, 1, false),
            (8, (1 << 16) + 1, 1, false),
            (max, 64, 4, true),
            (max, 65, 4, false),
        ] {
            let params = Argon2Params::stored(memory, iterations, lanes);
            assert_eq!(params.is_ok(), ok, "m={memory} t={iterations} p={lanes}");
        }
    }

    #[test]
    fn policy_of_what_is_made() {
        assert!(Argon2Params::new(64 << 10, 3, 1).is_ok());
        for (memory, iterations, lanes) in [
            ((64 << 10) - 1, 3, 1),
            (64 << 10, 2, 1),
            (8, 1, 1),
            (64 << 10, 3, 65),
        ] {
            let params = Argon2Params::new(memory, iterations, lanes);
            assert!(matches!(params, Err(Error::KdfParams(_))));
        }
        let for_tests = Argon2Params::insecure_for_tests();
        assert!(Argon2Params::RECOMMENDED.check_for_new_slot().is_ok());
        assert!(for_tests.check_for_new_slot().is_ok());
        let weak = Argon2Params::stored(16, 1, 1).expect("in bounds");
        assert!(matches!(
            weak.check_for_new_slot(),
            Err(Error::KdfParams(_))
        ));
    }

    #[test]
    fn calibration_stays_in_bounds_and_grows_with_the_target() {
        let least = Argon2Params::calibrate(Duration::ZERO).expect("memory");
        assert_eq!((least.memory_kib(), least.iterations()), (64 << 10, 3));
        assert!((1..=4).contains(&least.lanes()));
        let within = |memory_kib| Argon2Params::calibrate_within(Duration::MAX, memory_kib);
        let small = within(64 << 10).expect("memory");
        assert_eq!((small.memory_kib(), small.iterations()), (64 << 10, 4096));
        let most = Argon2Params::calibrate(Duration::MAX).expect("memory");
        assert!((64 << 10..=1 << 20).contains(&most.memory_kib()));
        assert!(most.work() <= WORK_MAX && most.iterations() > 3);
        let machine = crate::hash::budget::new_slot_memory_kib().max(64 << 10);
        assert_eq!(most.memory_kib(), machine.min(1 << 20));
        for params in [least, small, most] {
            params.check_policy().expect("policy");
        }
    }
}
