//! How a machine takes a disk, and learns that another one has taken it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::registrar::{Answer, Registrar};
use crate::{Error, Result};

/// The first two bytes of each key: "SR".
const TAG: u64 = 0x5352 << 48;
/// The bits of a key with the tag and the number of the machine.
const HOST: u64 = 0xffff_ffff_ff00_0000;

/// A machine that takes the devices of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Two bytes `SR`, three bytes for the machine, and three for its boot and the pool.
    key: u64,
    by_force: bool,
}

impl Claimant {
    /// A machine with this hostid and name, since this boot, for a pool. It takes only disks that no other machine has
    /// reserved.
    pub fn new(host: (u32, &str), boot: &str, pool_guid: u64) -> Claimant {
        let low = |pieces: [&[u8]; 2]| hash(pieces) & 0xff_ffff;
        let of_host = low([&host.0.to_le_bytes(), host.1.as_bytes()]);
        let of_boot = low([&pool_guid.to_le_bytes(), boot.as_bytes()]);
        Claimant {
            key: TAG | of_host << 24 | of_boot,
            by_force: false,
        }
    }

    /// The same machine, which also takes disks that other machines have reserved.
    pub fn by_force(self) -> Claimant {
        Claimant {
            by_force: true,
            ..self
        }
    }

    /// The key that it registers with a disk.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether a key is from the same machine. It may be from an earlier boot, or for another pool.
    pub fn is_self(&self, key: u64) -> bool {
        key & HOST == self.key & HOST
    }
}

/// FNV-1a. All versions of this program must compute the same keys.
fn hash(pieces: [&[u8]; 2]) -> u64 {
    let bytes = pieces.into_iter().flatten();
    let all = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    all ^ all >> 24 ^ all >> 48
}

/// The right of this machine alone to write to a disk. It ends when this is dropped.
pub struct Claim {
    disk: Box<dyn Registrar>,
    device: String,
    key: u64,
    is_lost: AtomicBool,
}

impl Claim {
    /// Takes a disk. After success no write of another machine is in progress, and new ones fail.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::NoReservations`].
    pub fn take(disk: Box<dyn Registrar>, device: String, by: &Claimant) -> Result<Claim> {
        register(disk.as_ref(), &device, by)?;
        let claim = Claim {
            disk,
            device,
            key: by.key,
            is_lost: AtomicBool::new(false),
        };
        // If the disk cannot be taken, the registration ends when the claim is dropped.
        claim.obtain(by)?;
        Ok(claim)
    }

    /// Asks the disk whether this machine still has it.
    ///
    /// # Errors
    /// [`Error::ClaimLost`]. A disk that does not answer does not count as lost.
    pub fn check(&self) -> Result<()> {
        if !self.is_lost.load(Ordering::Acquire) {
            match self.disk.reserve(self.key) {
                Ok(Answer::Conflict) if !self.has_other_path() => {}
                _ => return Ok(()),
            }
        }
        self.is_lost.store(true, Ordering::Release);
        Err(Error::ClaimLost {
            device: self.device.clone(),
        })
    }

    /// Whether this machine has the reservation by another path.
    fn has_other_path(&self) -> bool {
        let registered = self.disk.registered();
        matches!(registered, Ok(Some(found)) if found.holder == Some(self.key))
    }

    fn obtain(&self, by: &Claimant) -> Result<()> {
        if self.asked(self.disk.reserve(self.key))? == Answer::Conflict {
            self.take_over(by)?;
        }
        // All registered machines may write, so their registrations end.
        let registered = self.disk.registered().ok().flatten();
        for key in registered.unwrap_or_default().keys {
            if key != self.key {
                self.asked(self.disk.preempt(self.key, key))?;
            }
        }
        match self.asked(self.disk.reserve(self.key))? {
            Answer::Done => Ok(()),
            Answer::Conflict => Err(reserved(&self.device, None)),
        }
    }

    fn take_over(&self, by: &Claimant) -> Result<()> {
        let disk = &self.disk;
        match disk.registered().ok().flatten() {
            Some(found) => match found.holder {
                // The reservation was released meanwhile.
                None => {}
                Some(holder) if by.by_force || by.is_self(holder) => {
                    self.asked(disk.preempt(self.key, holder))?;
                }
                Some(holder) => return Err(reserved(&self.device, Some(holder))),
            },
            None if by.by_force => {
                self.asked(disk.clear(self.key))?;
                self.asked(disk.register(Some(0), self.key))?;
            }
            None => return Err(reserved(&self.device, None)),
        }
        self.asked(disk.reserve(self.key)).map(drop)
    }

    fn asked(&self, answer: io::Result<Answer>) -> Result<Answer> {
        answer.map_err(|source| no_reservations(&self.device, &source))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The reservation ends with the registration. If the disk does not answer, it keeps both. Later this machine
        // can take them over, and another one can do it by force.
        if !self.is_lost.load(Ordering::Acquire) {
            let _ = self.disk.register(Some(self.key), 0);
        }
    }
}

fn register(disk: &dyn Registrar, device: &str, by: &Claimant) -> Result<()> {
    let failed = |source: io::Error| no_reservations(device, &source);
    if disk.register(Some(0), by.key).map_err(failed)? == Answer::Done {
        return Ok(());
    }
    // This machine is registered with another key: one of ours, or one of another program that relies on it.
    if let Ok(Some(found)) = disk.registered()
        && !found.keys.iter().any(|key| by.is_self(*key))
    {
        return Err(reserved(device, found.keys.first().copied()));
    }
    match disk.register(None, by.key).map_err(failed)? {
        Answer::Done => Ok(()),
        Answer::Conflict => Err(reserved(device, None)),
    }
}

fn no_reservations(device: &str, source: &io::Error) -> Error {
    Error::NoReservations {
        device: device.into(),
        reason: source.to_string(),
    }
}

fn reserved(device: &str, key: Option<u64>) -> Error {
    let holder = match key {
        Some(key) if key >> 48 == TAG >> 48 => format!("another machine (key {key:#018x})"),
        Some(key) => format!("another program (key {key:#018x})"),
        None => "another machine".into(),
    };
    Error::Reserved {
        device: device.into(),
        holder,
    }
}
