//! PBKDF2 (RFC 8018) as the password hash of a slot: for FIPS mode, where Argon2id is not approved.
//!
//! PBKDF2 takes no memory, so an attacker's chips guess faster than this processor. The iterations are the only cost.
//! New slots have at least those that OWASP recommends; SP 800-132 asks for 1,000.

use std::fmt;
use std::time::Duration;

use cipher::{Digest, PasswordHash};
use rustix::time::{ClockId, clock_gettime};

use crate::hash::argon2::WORK_MAX;
use crate::hash::budget;
use crate::{Error, Result};

/// A longer measurement would say no more.
const MEASUREMENT: Duration = Duration::from_millis(60);

/// The cost of a guess at a passphrase with PBKDF2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pbkdf2Params {
    digest: Digest,
    iterations: u32,
}

impl Pbkdf2Params {
    /// The hashes that slots may have. New slots get the first: chips for SHA-256 are cheaper than for SHA-512.
    const DIGESTS: [Digest; 2] = [Digest::Sha512, Digest::Sha256];

    /// Parameters for new slots.
    ///
    /// # Errors
    /// [`Error::KdfParams`] for another hash than SHA-256 and SHA-512, for fewer than 600,000 or 210,000 iterations,
    /// or for more than 2^28.
    pub fn new(digest: Digest, iterations: u32) -> Result<Pbkdf2Params> {
        let params = Pbkdf2Params::stored(digest, iterations).map_err(Error::KdfParams)?;
        params.check_policy()?;
        Ok(params)
    }

    /// Parameters that take about `target` of processor time on this machine, and at least those that
    /// [`Pbkdf2Params::new`] accepts.
    ///
    /// # Errors
    /// Those of the queue of hashes.
    pub fn calibrate(target: Duration) -> Result<Pbkdf2Params> {
        let digest = Pbkdf2Params::DIGESTS[0];
        let fit = pbkdf2_fit(digest, target)?;
        let iterations = fit.clamp(least(digest).into(), WORK_MAX) as u32;
        Ok(Pbkdf2Params { digest, iterations })
    }

    /// Parameters as read from storage, or why they cannot be honest.
    pub(crate) fn stored(
        digest: Digest,
        iterations: u32,
    ) -> std::result::Result<Pbkdf2Params, &'static str> {
        if !Pbkdf2Params::DIGESTS.contains(&digest) {
            return Err("PBKDF2 hash");
        }
        if iterations == 0 || u64::from(iterations) > WORK_MAX {
            return Err("PBKDF2 iterations");
        }
        Ok(Pbkdf2Params { digest, iterations })
    }

    /// Refuses to protect a new slot with less than the policy asks for.
    pub(crate) fn check_policy(&self) -> Result<()> {
        match self.iterations < least(self.digest) {
            true => Err(Error::KdfParams(
                "new slots take at least 210,000 iterations with SHA-512, and 600,000 with SHA-256",
            )),
            false => Ok(()),
        }
    }

    /// The hash of the HMAC.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The iterations of the HMAC.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }
}

impl fmt::Debug for Pbkdf2Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pbkdf2Params { digest, iterations } = self;
        write!(f, "pbkdf2-{}(t={iterations})", digest.name())
    }
}

/// The fewest iterations of a new slot: the recommendation of OWASP.
fn least(digest: Digest) -> u32 {
    match digest {
        Digest::Sha512 => 210_000,
        _ => 600_000,
    }
}

/// The iterations of PBKDF2 that take so much time of a processor here, at least one.
///
/// # Errors
/// [`Error::Cipher`] if the hash cannot be used; those of the queue of hashes.
pub fn pbkdf2_fit(digest: Digest, time: Duration) -> Result<u64> {
    let long_enough = MEASUREMENT.min(time);
    let mut iterations = 1 << 12;
    loop {
        // The time of this thread: other threads must not make new slots cheaper.
        let start = thread_time();
        hash(digest, iterations, b"a measurement", &[0; 32], &mut [0; 20])?;
        let took = thread_time().saturating_sub(start);
        if took >= long_enough || iterations >= 1 << 29 {
            let fit = u128::from(iterations) * time.as_nanos() / took.as_nanos().max(1);
            return Ok(u64::try_from(fit).unwrap_or(u64::MAX).max(1));
        }
        iterations *= 2;
    }
}

/// Hashes `passphrase` to `key`.
pub(crate) fn hash(
    digest: Digest,
    iterations: u32,
    passphrase: &[u8],
    salt: &[u8],
    key: &mut [u8],
) -> Result<()> {
    let _place = budget::hash_memory(0, iterations)?;
    let hash = PasswordHash::Pbkdf2 { digest, iterations };
    Ok(hash.derive(passphrase, salt, key)?)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python: `hashlib.pbkdf2_hmac(name, b"correct horse", salt, 1000, 32)`.
    #[test]
    fn is_pbkdf2() {
        for (digest, expected) in [
            (
                Digest::Sha256,
                "5b5a784ae11df3d10be308828c5e55d42e8afd10846caa601d9fc6c497c26862",
            ),
            (
                Digest::Sha512,
                "5ecef6acf9ff1b0a0a338bc335df17dcf19e323216b6324d012f9d106fa392b6",
            ),
        ] {
            let params = Pbkdf2Params::stored(digest, 1000).expect("in bounds");
            let salt = b"0123456789abcdef0123456789abcdef";
            let mut key = [0; 32];
            hash(
                params.digest,
                params.iterations,
                b"correct horse",
                salt,
                &mut key,
            )
            .expect("hash");
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected);
        }
    }

    #[test]
    fn bounds_of_what_is_read_and_made() {
        for (digest, iterations, is_read, is_made) in [
            (Digest::Sha512, 0, false, false),
            (Digest::Sha512, 1, true, false),
            (Digest::Sha512, 209_999, true, false),
            (Digest::Sha512, 210_000, true, true),
            (Digest::Sha256, 599_999, true, false),
            (Digest::Sha256, 600_000, true, true),
            (Digest::Sha256, 1 << 28, true, true),
            (Digest::Sha256, (1 << 28) + 1, false, false),
            (Digest::Sha256, u32::MAX, false, false),
            (Digest::Sha1, 600_000, false, false),
        ] {
            let read = Pbkdf2Params::stored(digest, iterations);
            assert_eq!(read.is_ok(), is_read, "{iterations}");
            let made = Pbkdf2Params::new(digest, iterations);
            assert_eq!(made.is_ok(), is_made, "{iterations}");
        }
    }

    #[test]
    fn calibration_has_a_floor() {
        let params = Pbkdf2Params::calibrate(Duration::ZERO).expect("measured");
        assert_eq!(
            (params.digest(), params.iterations()),
            (Digest::Sha512, 210_000)
        );
        params.check_policy().expect("policy");
    }
}
