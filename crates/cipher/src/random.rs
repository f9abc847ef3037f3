//! Random numbers: an interface, the real source, and one that a seed replays.
//!
//! Keys and nonces come from separate generators of AWS-LC (CTR-DRBG with AES-256, SP 800-90A, each
//! seeded by the operating system and by a jitter source), so that nonces, which are public, say
//! nothing about the state that makes keys.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use zeroize::Zeroize;

use crate::record::NONCE_LEN;
use crate::{Error, Result, ffi};

/// Where keys, salts and nonces come from.
pub trait Random: Send + Sync {
    /// Fills `out` with unpredictable bytes, fit for keys.
    ///
    /// # Errors
    /// [`Error::Random`]: `out` must not be used.
    fn fill(&self, out: &mut [u8]) -> Result<()>;

    /// A nonce for one record: 192 bits that are public and never come twice.
    ///
    /// # Errors
    /// [`Error::Random`].
    fn nonce(&self) -> Result<[u8; NONCE_LEN]> {
        let mut nonce = [0; NONCE_LEN];
        self.fill(&mut nonce)?;
        Ok(nonce)
    }
}

impl<R: Random + ?Sized> Random for &R {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        (**self).fill(out)
    }

    fn nonce(&self) -> Result<[u8; NONCE_LEN]> {
        (**self).nonce()
    }
}

impl<R: Random + ?Sized> Random for std::sync::Arc<R> {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        (**self).fill(out)
    }

    fn nonce(&self) -> Result<[u8; NONCE_LEN]> {
        (**self).nonce()
    }
}

/// The random numbers of the operating system, by way of AWS-LC.
///
/// The first call in a process takes tens of milliseconds (jitter entropy): make it at start. Should
/// entropy fail later, AWS-LC ends the process rather than return bytes.
///
/// Nonces are drawn in bulk, into a pool per thread, and erased there as they are handed out. A fork
/// never repeats its parent's: it notices by a page that the kernel wipes, and starts afresh. A
/// virtual machine that is resumed twice from one snapshot may repeat up to a pool of nonces in each
/// thread, as it repeats everything else; do not resume a snapshot of a running pool twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        aws_lc_rs::rand::fill(out).map_err(|_| Error::Random)
    }

    fn nonce(&self) -> Result<[u8; NONCE_LEN]> {
        let Some(generation) = ffi::fork_generation() else {
            return fresh_nonce();
        };
        let pooled = POOL.try_with(|pool| pool.borrow_mut().take(generation));
        // A thread that is ending has lost its pool.
        pooled.unwrap_or_else(|_| fresh_nonce())
    }
}

fn fresh_nonce() -> Result<[u8; NONCE_LEN]> {
    let mut nonce = [0; NONCE_LEN];
    ffi::random_public(&mut nonce)?;
    Ok(nonce)
}

/// How many nonces are drawn at once: the price of a call to the generator is then shared by so many
/// that drawing costs less than a tenth of the rest of sealing a page.
const POOL_NONCES: usize = 64;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::EMPTY) };
}

/// Nonces drawn and not yet handed out.
struct Pool {
    nonces: [[u8; NONCE_LEN]; POOL_NONCES],
    /// Those before are handed out, and zero.
    next: usize,
    /// The process that drew them.
    generation: u64,
}

impl Pool {
    const EMPTY: Pool = Pool {
        nonces: [[0; NONCE_LEN]; POOL_NONCES],
        next: POOL_NONCES,
        generation: 0,
    };

    fn take(&mut self, generation: u64) -> Result<[u8; NONCE_LEN]> {
        if self.next == POOL_NONCES || self.generation != generation {
            self.refill(generation)?;
        }
        let nonce = std::mem::take(&mut self.nonces[self.next]);
        self.next += 1;
        Ok(nonce)
    }

    fn refill(&mut self, generation: u64) -> Result<()> {
        // Empty until it succeeds, so that a failure leaves nothing to hand out.
        self.next = POOL_NONCES;
        ffi::random_public(self.nonces.as_flattened_mut())?;
        self.generation = generation;
        self.next = 0;
        Ok(())
    }
}

/// A sequence that a seed determines, for tests and simulation. **Never for real keys**: there are
/// only 2^64 sequences, and the seed is not a secret.
///
/// The bytes are one BLAKE3 output stream. Calls take consecutive pieces of it in the order in which
/// they are made, so one thread gets the same bytes each time.
pub struct SeededRandom {
    stream: blake3::OutputReader,
    position: AtomicU64,
}

impl SeededRandom {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> SeededRandom {
        let mut hasher = blake3::Hasher::new_derive_key("strongroom 2026-11 seeded random v1");
        hasher.update(&seed.to_le_bytes());
        SeededRandom {
            stream: hasher.finalize_xof(),
            position: AtomicU64::new(0),
        }
    }
}

impl Random for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        let position = self.position.fetch_add(out.len() as u64, Ordering::Relaxed);
        let mut stream = self.stream.clone();
        stream.set_position(position);
        stream.fill(out);
        stream.zeroize();
        Ok(())
    }
}

impl fmt::Debug for SeededRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeededRandom([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nonces_never_repeat_in_or_across_threads() {
        const EACH: usize = 10 * POOL_NONCES + 7;
        let draw = || -> Vec<_> {
            let draws = (0..EACH).map(|_| SystemRandom.nonce());
            draws.collect::<Result<_>>().expect("random")
        };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(draw)).collect();
        let mut seen: HashSet<_> = draw().into_iter().collect();
        for thread in threads {
            seen.extend(thread.join().expect("thread"));
        }
        assert_eq!(seen.len(), 5 * EACH);
        assert!(!seen.contains(&[0; NONCE_LEN]));
    }

    #[test]
    fn a_pool_is_erased_as_it_is_used_and_dropped_in_a_fork() {
        let mut pool = Pool::EMPTY;
        let first = pool.take(1).expect("random");
        assert_eq!(pool.nonces[0], [0; NONCE_LEN]);
        let left: HashSet<_> = pool.nonces[1..].iter().copied().collect();
        assert_eq!(left.len(), POOL_NONCES - 1);
        assert!(!left.contains(&first));
        // What a child would see: the same pool, another generation.
        for _ in 0..POOL_NONCES {
            assert!(!left.contains(&pool.take(2).expect("random")));
        }
    }

    #[test]
    fn fill_fills() {
        let mut seen = HashSet::new();
        for _ in 0..16 {
            let mut bytes = [0; 32];
            SystemRandom.fill(&mut bytes).expect("random");
            assert!(seen.insert(bytes));
        }
        SystemRandom.fill(&mut []).expect("nothing to do");
    }

    #[test]
    fn a_seed_replays() {
        let (a, b, other) = (
            SeededRandom::new(1),
            SeededRandom::new(1),
            SeededRandom::new(2),
        );
        let mut whole = [0; 100];
        a.fill(&mut whole).expect("never fails");
        let mut pieces = [0; 100];
        let (head, tail) = pieces.split_at_mut(33);
        b.fill(head).expect("never fails");
        b.fill(tail).expect("never fails");
        assert_eq!(whole, pieces);
        assert_eq!(a.nonce(), b.nonce());
        let mut different = [0; 100];
        other.fill(&mut different).expect("never fails");
        assert_ne!(whole, different);
        // Golden: simulations are replayed by their seeds from one version to the next.
        assert_eq!(whole[..8], crate::tests::hex(GOLDEN));
    }

    const GOLDEN: &str = "a89c380be37d3614";
}
