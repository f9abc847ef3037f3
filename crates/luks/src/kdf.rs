//! How a passphrase becomes a key: PBKDF2, Argon2i or Argon2id, at a cost that is chosen when a slot
//! is made and stands in the header.

use std::fmt;
use std::time::{Duration, Instant};

use cipher::PasswordHash;
use secret::Secret;

use crate::{Error, Result, crypto};

pub use cipher::Argon2Kind as Variant;

/// The most iterations of PBKDF2 that a header may ask for: some minutes.
const PBKDF2_MAX: u32 = 1 << 30;

/// The fewest iterations of PBKDF2 that are chosen here.
pub(crate) const PBKDF2_MIN: u32 = 1000;

/// The fewest passes of Argon2 that are chosen here.
const PASSES_MIN: u32 = 4;

/// The most memory that a header may ask for, in KiB: 4 GiB.
const MEMORY_MAX: u32 = 4 << 20;

/// The most lanes that a header may ask for.
const LANES_MAX: u32 = 64;

/// The most work that a header may ask for, in KiB times passes: 1 TiB, some minutes.
pub(crate) const WORK_MAX: u64 = 1 << 30;

/// The least memory that is chosen here, in KiB, where the machine has it.
const MEMORY_MIN: u32 = 64 << 10;

/// What a guess costs with Argon2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Parts that can be computed at the same time.
    pub lanes: u32,
}

/// A password hash with its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// PBKDF2 with HMAC (RFC 8018).
    Pbkdf2 {
        /// The hash, as `sha256`.
        hash: String,
        /// How often.
        iterations: u32,
    },
    /// Argon2 (RFC 9106).
    Argon2(Variant, Argon2Cost),
}

impl Kdf {
    /// The name that headers have for it.
    pub fn name(&self) -> &'static str {
        match self {
            Kdf::Pbkdf2 { .. } => "pbkdf2",
            Kdf::Argon2(Variant::Argon2i, _) => "argon2i",
            Kdf::Argon2(Variant::Argon2id, _) => "argon2id",
        }
    }

    /// Makes a key of `len` bytes of a passphrase.
    ///
    /// # Errors
    /// [`Error::Usage`] for a cost or a hash that cannot be; [`Error::Keys`] without memory for it.
    pub(crate) fn derive(&self, passphrase: &Secret, salt: &[u8], len: usize) -> Result<Secret> {
        self.timed(passphrase, salt, len).map(|(key, _)| key)
    }

    /// Makes a key as [`Kdf::derive`], and returns the time that it took without the wait for its turn.
    fn timed(&self, passphrase: &Secret, salt: &[u8], len: usize) -> Result<(Secret, Duration)> {
        let mut key = Secret::zeroed(len)?;
        let hash = self.checked()?;
        let _place = match self {
            Kdf::Pbkdf2 { iterations, .. } => keys::hash_memory(0, *iterations)?,
            Kdf::Argon2(_, cost) => keys::hash_memory(cost.memory_kib, cost.passes)?,
        };
        let start = Instant::now();
        hash.derive(passphrase.expose(), salt, key.expose_mut())?;
        Ok((key, start.elapsed()))
    }

    /// What a try costs, in KiB of memory times passes. PBKDF2 takes no memory. A cost that cannot
    /// be computed here is an error of its own.
    pub(crate) fn work(&self) -> Result<u64> {
        self.checked()?;
        Ok(match self {
            Kdf::Pbkdf2 { .. } => 0,
            Kdf::Argon2(_, cost) => u64::from(cost.memory_kib) * u64::from(cost.passes),
        })
    }

    /// The hash, if its cost is within sane limits.
    fn checked(&self) -> Result<PasswordHash> {
        match self {
            Kdf::Pbkdf2 { hash, iterations } => pbkdf2(hash, *iterations),
            Kdf::Argon2(kind, cost) => cost.checked(*kind),
        }
    }
}

/// PBKDF2 with a hash of this name.
///
/// # Errors
/// [`Error::Usage`] for a hash that is not known, or so many iterations that they cannot be meant.
pub(crate) fn pbkdf2(hash: &str, iterations: u32) -> Result<PasswordHash> {
    if !(1..=PBKDF2_MAX).contains(&iterations) {
        let what = format!("{iterations} iterations of PBKDF2 take too long");
        return Err(Error::Usage(what));
    }
    let digest = crypto::digest(hash)?;
    Ok(PasswordHash::Pbkdf2 { digest, iterations })
}

impl fmt::Display for Kdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kdf::Pbkdf2 { hash, iterations } => {
                write!(f, "pbkdf2-{hash} ({iterations} iterations)")
            }
            Kdf::Argon2(_, cost) => {
                let (time, memory, cpus) = (cost.passes, cost.memory_kib, cost.lanes);
                write!(
                    f,
                    "{} ({time} passes, {memory} KiB, {cpus} lanes)",
                    self.name()
                )
            }
        }
    }
}

impl Argon2Cost {
    fn checked(&self, kind: Variant) -> Result<PasswordHash> {
        let Argon2Cost {
            memory_kib,
            passes,
            lanes,
        } = *self;
        let is_honest = (1..=LANES_MAX).contains(&lanes)
            && (8 * lanes..=MEMORY_MAX).contains(&memory_kib)
            && passes > 0
            && u64::from(memory_kib) * u64::from(passes) <= WORK_MAX;
        if !is_honest {
            return Err(Error::Usage(format!(
                "Argon2 with {memory_kib} KiB, {passes} passes and {lanes} lanes cannot be computed here"
            )));
        }
        Ok(PasswordHash::Argon2 {
            kind,
            memory_kib,
            iterations: passes,
            lanes,
        })
    }
}

/// Which password hash new slots get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KdfKind {
    /// PBKDF2: the only one of LUKS1.
    Pbkdf2,
    /// Argon2i or Argon2id.
    Argon2(Variant),
}

impl KdfKind {
    /// By the name that headers have for it.
    pub fn from_name(name: &str) -> Option<KdfKind> {
        match name {
            "pbkdf2" => Some(KdfKind::Pbkdf2),
            "argon2i" => Some(KdfKind::Argon2(Variant::Argon2i)),
            "argon2id" => Some(KdfKind::Argon2(Variant::Argon2id)),
            _ => None,
        }
    }
}

/// What a new slot shall cost.
#[derive(Clone, Debug)]
pub struct KdfChoice {
    /// Which hash.
    pub kind: KdfKind,
    /// The hash of PBKDF2, as `sha256`.
    pub hash: String,
    /// How long opening shall take here.
    pub time: Duration,
    /// This many iterations or passes, whatever they take.
    pub force_iterations: Option<u32>,
    /// At most so much memory, in KiB.
    pub memory_kib: u32,
    /// So many lanes; as many as there are processors, and at most four, if not said.
    pub lanes: Option<u32>,
}

impl KdfChoice {
    /// Argon2id for two seconds with at most 1 GiB, as cryptsetup does.
    pub fn new(kind: KdfKind) -> KdfChoice {
        KdfChoice {
            kind,
            hash: "sha256".into(),
            time: Duration::from_millis(2000),
            force_iterations: None,
            memory_kib: 1 << 20,
            lanes: None,
        }
    }

    /// The hash with its cost, which is measured unless it is forced.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be; [`Error::Keys`] without memory; what FIPS mode refuses.
    pub fn settle(&self) -> Result<Kdf> {
        let kdf = match self.kind {
            KdfKind::Pbkdf2 => self.settle_pbkdf2()?,
            KdfKind::Argon2(variant) => self.settle_argon2(variant)?,
        };
        // Now, and not when it is computed: an old header may be gone by then.
        kdf.checked()?.check()?;
        Ok(kdf)
    }

    /// This choice with a fixed cost, as measured on this machine now.
    pub(crate) fn forced(&self) -> Result<KdfChoice> {
        let mut choice = self.clone();
        match self.settle()? {
            Kdf::Pbkdf2 { iterations, .. } => choice.force_iterations = Some(iterations),
            Kdf::Argon2(_, cost) => {
                choice.force_iterations = Some(cost.passes);
                choice.memory_kib = cost.memory_kib;
                choice.lanes = Some(cost.lanes);
            }
        }
        Ok(choice)
    }

    fn settle_pbkdf2(&self) -> Result<Kdf> {
        let iterations = match self.force_iterations {
            Some(forced) if (PBKDF2_MIN..=PBKDF2_MAX).contains(&forced) => forced,
            Some(_) => {
                let what = format!("PBKDF2 takes {PBKDF2_MIN} to {PBKDF2_MAX} iterations");
                return Err(Error::Usage(what));
            }
            None => pbkdf2_iterations(&self.hash, self.time)?,
        };
        Ok(Kdf::Pbkdf2 {
            hash: self.hash.clone(),
            iterations,
        })
    }

    fn settle_argon2(&self, variant: Variant) -> Result<Kdf> {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let lanes = self.lanes.unwrap_or(processors.min(4));
        let most = self.memory_kib.min(half_of_memory_kib()).max(8 * lanes);
        let with = |memory_kib, passes| Argon2Cost {
            memory_kib,
            passes,
            lanes,
        };
        let cost = match self.force_iterations {
            Some(forced) if forced < PASSES_MIN => {
                let what = format!("Argon2 takes at least {PASSES_MIN} passes");
                return Err(Error::Usage(what));
            }
            Some(forced) => with(most, forced),
            None => {
                let probe = with(most.min(MEMORY_MIN), PASSES_MIN);
                let took = time_of(variant, probe)?;
                let (memory_kib, passes) = share(self.time, took, probe, most);
                with(memory_kib, passes)
            }
        };
        cost.checked(variant)?;
        Ok(Kdf::Argon2(variant, cost))
    }
}

/// Memory as far as the time allows with the fewest passes; then more passes.
fn share(time: Duration, took: Duration, probe: Argon2Cost, most: u32) -> (u32, u32) {
    let work = u128::from(probe.memory_kib) * u128::from(probe.passes);
    let budget = work * time.as_nanos() / took.as_nanos().max(1);
    let memory =
        (budget / u128::from(PASSES_MIN)).clamp(u128::from(probe.memory_kib), u128::from(most));
    let passes = (budget / memory).clamp(u128::from(PASSES_MIN), 1 << 16);
    (memory as u32, passes as u32)
}

fn time_of(variant: Variant, cost: Argon2Cost) -> Result<Duration> {
    let passphrase = Secret::from_slice(b"a measurement")?;
    let (_, took) = Kdf::Argon2(variant, cost).timed(&passphrase, &[0; 32], 32)?;
    Ok(took)
}

/// How many iterations of PBKDF2 take so long here.
pub(crate) fn pbkdf2_iterations(hash: &str, time: Duration) -> Result<u32> {
    let mut iterations = 1 << 12;
    let elapsed = loop {
        let start = Instant::now();
        self::pbkdf2(hash, iterations)?.derive(b"a measurement", &[0; 32], &mut [0; 20])?;
        let elapsed = start.elapsed();
        // Long enough for a moment's disturbance not to matter.
        if elapsed >= Duration::from_millis(60).min(time) || iterations >= PBKDF2_MAX / 2 {
            break elapsed;
        }
        iterations *= 2;
    };
    let fit = u128::from(iterations) * time.as_nanos() / elapsed.as_nanos().max(1);
    Ok(fit.clamp(PBKDF2_MIN.into(), PBKDF2_MAX.into()) as u32)
}

/// Half of the machine's memory, in KiB: a container that is opened shall not make it swap.
fn half_of_memory_kib() -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(MEMORY_MIN, |kib| u32::try_from(kib / 2).unwrap_or(u32::MAX))
}
