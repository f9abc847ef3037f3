//! Password hashes of key slots: PBKDF2, Argon2i or Argon2id. The cost is chosen when a slot is made, and stands in
//! the header.

use std::fmt;
use std::time::Duration;

use cipher::PasswordHash;
use keys::Argon2Fit;
use secret::Secret;

use crate::{Error, Result, crypto};

pub use cipher::Argon2Kind as Variant;
pub use keys::Argon2Cost;

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

/// A password hash with its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// PBKDF2 with HMAC (RFC 8018).
    Pbkdf2 {
        /// The hash, as `sha256`.
        hash: String,
        /// The number of iterations.
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
        let mut key = Secret::zeroed(len)?;
        let hash = self.checked()?;
        let _place = match self {
            Kdf::Pbkdf2 { iterations, .. } => keys::hash_memory(0, *iterations)?,
            Kdf::Argon2(_, cost) => keys::hash_memory(cost.memory_kib, cost.passes)?,
        };
        hash.derive(passphrase.expose(), salt, key.expose_mut())?;
        Ok(key)
    }

    /// The work of a try: memory in KiB times passes. An iteration of PBKDF2 counts as much as a pass over 1 KiB. A cost
    /// that cannot be computed here is an error of its own.
    pub(crate) fn work(&self) -> Result<u64> {
        self.checked()?;
        Ok(match self {
            Kdf::Pbkdf2 { iterations, .. } => u64::from(*iterations),
            Kdf::Argon2(_, cost) => u64::from(cost.memory_kib) * u64::from(cost.passes),
        })
    }

    /// The hash, if its cost is within sane limits.
    fn checked(&self) -> Result<PasswordHash> {
        match self {
            Kdf::Pbkdf2 { hash, iterations } => pbkdf2(hash, *iterations),
            Kdf::Argon2(kind, cost) => argon2(*kind, *cost),
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

/// Argon2, if its cost is within sane limits.
fn argon2(kind: Variant, cost: Argon2Cost) -> Result<PasswordHash> {
    let Argon2Cost {
        memory_kib,
        passes,
        lanes,
    } = cost;
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

/// The password hash of a new slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KdfKind {
    /// PBKDF2: the only one of LUKS1.
    Pbkdf2,
    /// Argon2i or Argon2id.
    Argon2(Variant),
}

impl KdfKind {
    /// Returns the kind by the name that headers have for it.
    pub fn from_name(name: &str) -> Option<KdfKind> {
        match name {
            "pbkdf2" => Some(KdfKind::Pbkdf2),
            "argon2i" => Some(KdfKind::Argon2(Variant::Argon2i)),
            "argon2id" => Some(KdfKind::Argon2(Variant::Argon2id)),
            _ => None,
        }
    }
}

/// The cost of a new slot.
#[derive(Clone, Debug)]
pub struct KdfChoice {
    /// The password hash.
    pub kind: KdfKind,
    /// The hash of PBKDF2, as `sha256`.
    pub hash: String,
    /// The time that opening takes on this machine.
    pub time: Duration,
    /// A fixed number of iterations or passes, whatever time they take.
    pub force_iterations: Option<u32>,
    /// The largest memory, in KiB.
    pub memory_kib: u32,
    /// The number of lanes. `None`: one for each processor, at most four.
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

    /// Returns this choice with a fixed cost, as measured on this machine now.
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
        let fit = Argon2Fit {
            kind: variant,
            time: self.time,
            passes_min: PASSES_MIN,
            memory_kib_max: self.memory_kib,
            lanes: self.lanes,
        };
        let least = Argon2Cost {
            memory_kib: fit.memory_kib(),
            passes: self.force_iterations.unwrap_or(PASSES_MIN),
            lanes: fit.lanes(),
        };
        if least.passes < PASSES_MIN {
            let what = format!("Argon2 takes at least {PASSES_MIN} passes");
            return Err(Error::Usage(what));
        }
        argon2(variant, least)?;
        let cost = match self.force_iterations {
            Some(_) => least,
            None => fit.measure()?,
        };
        argon2(variant, cost)?;
        Ok(Kdf::Argon2(variant, cost))
    }
}

/// Returns the number of PBKDF2 iterations that take this time here.
pub(crate) fn pbkdf2_iterations(hash: &str, time: Duration) -> Result<u32> {
    let fit = keys::pbkdf2_fit(crypto::digest(hash)?, time)?;
    Ok(fit.clamp(PBKDF2_MIN.into(), PBKDF2_MAX.into()) as u32)
}
