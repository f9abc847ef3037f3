//! Random numbers: an interface, the real source, and one that a seed replays.
//!
//! Each key and each nonce is the XOR of two sources, and is good if one of them is:
//! - the kernel (`getrandom`), asked again for each draw. It knows when this process was forked, and when its virtual
//!   machine was resumed (*VM generation id*). Then it gives other numbers, also by the state in `ffi/vdso.rs`;
//! - AWS-LC (CTR-DRBG with AES-256, SP 800-90A, seeded by the operating system and by a jitter source). It has
//!   separate generators for keys and nonces. So nonces, which are public, say nothing about the state that makes
//!   keys.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroize;

use crate::record::NONCE_LEN;
use crate::{Error, Result, ffi};

/// A source of keys, salts and nonces.
pub trait Random: Send + Sync {
    /// Fills `out` with unpredictable bytes, fit for keys.
    ///
    /// # Errors
    /// [`Error::Random`]: `out` must not be used.
    fn fill(&self, out: &mut [u8]) -> Result<()>;

    /// Draws nonces, one for each of several records: 192 bits that are public and never come twice.
    ///
    /// # Errors
    /// [`Error::Random`]: `out` must not be used.
    fn nonces(&self, out: &mut [[u8; NONCE_LEN]]) -> Result<()> {
        self.fill(out.as_flattened_mut())
    }

    /// Draws the nonce of one record, as [`Random::nonces`] does.
    ///
    /// # Errors
    /// [`Error::Random`].
    fn nonce(&self) -> Result<[u8; NONCE_LEN]> {
        let mut nonce = [[0; NONCE_LEN]];
        self.nonces(&mut nonce)?;
        Ok(nonce[0])
    }
}

impl<R: Random + ?Sized> Random for &R {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        (**self).fill(out)
    }

    fn nonces(&self, out: &mut [[u8; NONCE_LEN]]) -> Result<()> {
        (**self).nonces(out)
    }
}

impl<R: Random + ?Sized> Random for std::sync::Arc<R> {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        (**self).fill(out)
    }

    fn nonces(&self, out: &mut [[u8; NONCE_LEN]]) -> Result<()> {
        (**self).nonces(out)
    }
}

/// The random numbers of the kernel, mixed with those of AWS-LC.
///
/// The first call in a process takes tens of milliseconds (jitter entropy): make it at start. The kernel is asked before
/// AWS-LC, which would end the process where the kernel gives no numbers.
///
/// A fork does not repeat a number. Two resumes of one image of a *virtual machine* do not, if the kernel has the machine's
/// generation id. Without it the kernel repeats its numbers too, for up to a minute. So do two restores of one checkpoint
/// of the process on the same kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        mixed(out, |out| {
            aws_lc_rs::rand::fill(out).map_err(|_| Error::Random)
        })
    }

    fn nonces(&self, out: &mut [[u8; NONCE_LEN]]) -> Result<()> {
        mixed(out.as_flattened_mut(), |out| {
            let nonces = out.as_chunks_mut().0;
            let pooled = POOL.try_with(|pool| pool.borrow_mut().take(nonces));
            // A thread that is ending has lost its pool.
            pooled.unwrap_or_else(|_| ffi::random_public(out))
        })
    }
}

/// The most bytes of one [`kernel_entropy`], as of `getentropy`.
pub const ENTROPY_MAX: usize = 256;

/// Fills up to 256 bytes by the kernel alone (`getrandom`): a seed for another generator. Keys and nonces come from
/// [`SystemRandom`].
///
/// # Errors
/// [`Error::Random`], also for more bytes.
pub fn kernel_entropy(out: &mut [u8]) -> Result<()> {
    match out.len() > ENTROPY_MAX {
        true => Err(Error::Random),
        false => draw_from_kernel(out),
    }
}

/// Fills `out` by `draw`, and adds fresh numbers of the kernel. These are drawn first.
fn mixed(out: &mut [u8], draw: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
    let fresh = KernelNumbers::draw(out.len())?;
    draw(out)?;
    fresh.add_to(out);
    Ok(())
}

/// Fresh numbers of the kernel. A key or a nonce takes them as they are. For more bytes they are the key of a stream
/// of BLAKE3.
struct KernelNumbers([u8; 2 * blake3::KEY_LEN]);

impl KernelNumbers {
    /// Enough for so many bytes.
    fn draw(len: usize) -> Result<KernelNumbers> {
        let mut fresh = KernelNumbers([0; 2 * blake3::KEY_LEN]);
        let wanted = match len > fresh.0.len() {
            true => blake3::KEY_LEN,
            false => len,
        };
        draw_from_kernel(&mut fresh.0[..wanted])?;
        Ok(fresh)
    }

    fn add_to(&self, out: &mut [u8]) {
        if out.len() <= self.0.len() {
            return add(out, &self.0);
        }
        let mut key = [0; blake3::KEY_LEN];
        key.copy_from_slice(&self.0[..blake3::KEY_LEN]);
        let mut stream = blake3::Hasher::new_keyed(&key).finalize_xof();
        let mut fresh = [0; 256];
        for piece in out.chunks_mut(fresh.len()) {
            let fresh = &mut fresh[..piece.len()];
            stream.fill(fresh);
            add(piece, fresh);
        }
        fresh.zeroize();
        key.zeroize();
        stream.zeroize();
    }
}

impl Drop for KernelNumbers {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

fn add(out: &mut [u8], other: &[u8]) {
    for (byte, other) in out.iter_mut().zip(other) {
        *byte ^= other;
    }
}

/// Fills up to 256 bytes, which the kernel does at once and without an interruption.
fn draw_from_kernel(out: &mut [u8]) -> Result<()> {
    let len = match ffi::vdso_getrandom(out) {
        Some(len) => len,
        None => system_call(out)?,
    };
    match len == out.len() {
        true => Ok(()),
        false => Err(Error::Random),
    }
}

fn system_call(out: &mut [u8]) -> Result<usize> {
    retry_on_intr(|| getrandom(&mut *out, GetRandomFlags::empty())).map_err(|_| Error::Random)
}

/// The number of nonces that are drawn from AWS-LC at once. A call costs much, and the kernel is asked for each draw
/// anyway.
const POOL_NONCES: usize = 64;

thread_local! {
    static POOL: RefCell<NoncePool> = const { RefCell::new(NoncePool::EMPTY) };
}

/// Nonces of AWS-LC, not yet mixed with the kernel's numbers.
struct NoncePool {
    nonces: [[u8; NONCE_LEN]; POOL_NONCES],
    /// The index of the next nonce. Those before are handed out, and zero.
    next: usize,
}

impl NoncePool {
    const EMPTY: NoncePool = NoncePool {
        nonces: [[0; NONCE_LEN]; POOL_NONCES],
        next: POOL_NONCES,
    };

    fn take(&mut self, out: &mut [[u8; NONCE_LEN]]) -> Result<()> {
        for nonce in out {
            if self.next == POOL_NONCES {
                ffi::random_public(self.nonces.as_flattened_mut())?;
                self.next = 0;
            }
            // What is handed out is zero here, so that it is never handed out again.
            *nonce = std::mem::take(&mut self.nonces[self.next]);
            debug_assert_ne!(*nonce, [0; NONCE_LEN]);
            self.next += 1;
        }
        Ok(())
    }
}

/// The nonces of a request that seals several records: the source is asked once for up to 16 of them.
///
/// A batch must end with its request. Until then a copy of the process has the unused nonces too, but also the
/// records that wait for them. Both copies seal the same records.
pub struct NonceBatch<'a> {
    source: &'a dyn Random,
    unused: Mutex<UnusedNonces>,
}

struct UnusedNonces {
    nonces: [[u8; NONCE_LEN]; BATCH_NONCES],
    /// The number of nonces, from the first one, that are drawn and not handed out.
    drawn: usize,
    /// The number of nonces that callers are still expected to take.
    expected: usize,
}

const BATCH_NONCES: usize = 16;

impl NonceBatch<'_> {
    /// A batch for so many records. It gives more where that is too few.
    pub fn new(source: &dyn Random, records: usize) -> NonceBatch<'_> {
        let unused = UnusedNonces {
            nonces: [[0; NONCE_LEN]; BATCH_NONCES],
            drawn: 0,
            expected: records,
        };
        NonceBatch {
            source,
            unused: Mutex::new(unused),
        }
    }
}

impl Random for NonceBatch<'_> {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        self.source.fill(out)
    }

    fn nonces(&self, out: &mut [[u8; NONCE_LEN]]) -> Result<()> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        for nonce in out {
            *nonce = unused.take(self.source)?;
        }
        Ok(())
    }
}

impl UnusedNonces {
    fn take(&mut self, source: &dyn Random) -> Result<[u8; NONCE_LEN]> {
        if self.drawn == 0 {
            let count = self.expected.clamp(1, BATCH_NONCES);
            source.nonces(&mut self.nonces[..count])?;
            self.drawn = count;
            self.expected = self.expected.saturating_sub(count);
        }
        self.drawn -= 1;
        Ok(std::mem::take(&mut self.nonces[self.drawn]))
    }
}

/// A sequence that a seed determines, for tests and simulation. **Never for real keys**: there are
/// only 2^64 sequences, and the seed is not a secret.
///
/// The bytes are one BLAKE3 output stream. Calls take consecutive pieces of it in the order in which they are made.
/// So one thread gets the same bytes each time.
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
    fn a_pool_is_erased_as_it_is_used() {
        let mut pool = NoncePool::EMPTY;
        let mut first = [[0; NONCE_LEN]];
        pool.take(&mut first).expect("random");
        assert_eq!(pool.nonces[0], [0; NONCE_LEN]);
        let left: HashSet<_> = pool.nonces[1..].iter().copied().collect();
        assert_eq!(left.len(), POOL_NONCES - 1);
        assert!(!left.contains(&first[0]));
    }

    #[test]
    fn every_piece_gets_numbers_of_the_kernel() {
        let nothing = |_: &mut [u8]| Ok(());
        let mut bytes = [0; 3 * 256 + 32];
        mixed(&mut bytes, nothing).expect("random");
        let mut few = [0; 64];
        mixed(&mut few, nothing).expect("random");
        let mut called = [0; 256];
        assert_eq!(system_call(&mut called), Ok(256));
        let pieces = bytes.chunks(32).chain(few.chunks(32));
        let pieces: HashSet<_> = pieces.chain(called.chunks(32)).collect();
        assert_eq!(pieces.len(), (bytes.len() + few.len() + called.len()) / 32);
        assert!(!pieces.contains(&[0; 32][..]));
    }

    /// Counts its draws.
    struct Counted(AtomicU64);

    impl Random for Counted {
        fn fill(&self, out: &mut [u8]) -> Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            SystemRandom.fill(out)
        }
    }

    #[test]
    fn a_batch_draws_what_its_request_needs() {
        for (records, taken, draws) in [
            (0, 0, 0),
            (1, 1, 1),
            (16, 16, 1),
            (17, 17, 2),
            (40, 40, 3),
            (2, 4, 3),
        ] {
            let counted = Counted(AtomicU64::new(0));
            let batch = NonceBatch::new(&counted, records);
            let nonces: Result<HashSet<_>> = (0..taken).map(|_| batch.nonce()).collect();
            assert_eq!(nonces.expect("random").len(), taken);
            assert_eq!(counted.0.into_inner(), draws, "{records} records");
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
    fn the_kernel_gives_little_at_once() {
        let mut seed = [0; ENTROPY_MAX];
        kernel_entropy(&mut seed).expect("random");
        assert_ne!(seed, [0; ENTROPY_MAX]);
        let more = kernel_entropy(&mut [0; ENTROPY_MAX + 1]);
        assert_eq!(more, Err(Error::Random));
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
