//! Claims of disks: a machine takes a disk, and learns that another one has taken it.

use std::io;
use std::sync::OnceLock;

use super::registrar::{Registrar, RegistrarAnswer};
use crate::{Error, Loss, Result};

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

    /// Returns whether a key is from the same machine. It may be from an earlier boot, or for another pool.
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
    lost: OnceLock<Loss>,
}

impl Claim {
    /// Takes a disk. After success no write of another machine is in progress, and new ones fail.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::NoReservations`].
    pub fn take(disk: Box<dyn Registrar>, device: String, by: &Claimant) -> Result<Claim> {
        // A disk whose registrations cannot be read is left as it is.
        disk.registered()
            .map_err(|source| no_reservations(&device, &source))?;
        register(disk.as_ref(), &device, by)?;
        let claim = Claim {
            disk,
            device,
            key: by.key,
            lost: OnceLock::new(),
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
        let lost = self.lost.get().copied().or_else(|| self.look());
        lost.map_or(Ok(()), |loss| {
            Err(Error::ClaimLost {
                device: self.device.clone(),
                loss: *self.lost.get_or_init(|| loss),
            })
        })
    }

    /// Returns how the claim was lost, if the disk says so.
    fn look(&self) -> Option<Loss> {
        let Ok(RegistrarAnswer::Conflict) = self.disk.reserve(self.key) else {
            return None;
        };
        match self.disk.registered() {
            Err(_) => None,
            // This machine has the reservation by another path.
            Ok(found) if found.holder == Some(self.key) => None,
            Ok(found) if found.keys.is_empty() => Some(Loss::Forgotten),
            Ok(_) => Some(Loss::Taken),
        }
    }

    fn obtain(&self, by: &Claimant) -> Result<()> {
        if self.asked(self.disk.reserve(self.key))? == RegistrarAnswer::Conflict {
            self.take_over(by)?;
        }
        // All registered machines may write, so their registrations end.
        for key in self.asked(self.disk.registered())?.keys {
            if key != self.key {
                self.asked(self.disk.preempt(self.key, key))?;
            }
        }
        match self.asked(self.disk.reserve(self.key))? {
            RegistrarAnswer::Done => Ok(()),
            RegistrarAnswer::Conflict => Err(reserved(&self.device, None)),
        }
    }

    fn take_over(&self, by: &Claimant) -> Result<()> {
        let disk = &self.disk;
        match self.asked(disk.registered())?.holder {
            // The reservation was released meanwhile.
            None => {}
            Some(holder) if by.by_force || by.is_self(holder) => {
                self.asked(disk.preempt(self.key, holder))?;
            }
            Some(holder) => return Err(reserved(&self.device, Some(holder))),
        }
        self.asked(disk.reserve(self.key)).map(drop)
    }

    fn asked<T>(&self, answer: io::Result<T>) -> Result<T> {
        answer.map_err(|source| no_reservations(&self.device, &source))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.lost.get().is_some() {
            return;
        }
        // The reservation ends with the registration. If the disk does not answer, it keeps both. Later this machine
        // can take them over, and another one can do it by force.
        let error = match self.disk.register(Some(self.key), 0) {
            Ok(RegistrarAnswer::Done) => return,
            Ok(RegistrarAnswer::Conflict) => "this machine is not registered with that key".into(),
            Err(error) => error.to_string(),
        };
        let (device, key) = (&self.device, format_args!("{:#018x}", self.key));
        tracing::warn!(device, %key, error, "the reservation of a disk could not be ended");
    }
}

fn register(disk: &dyn Registrar, device: &str, by: &Claimant) -> Result<()> {
    let failed = |source: io::Error| no_reservations(device, &source);
    // If some paths of a multipath device have the key already, the kernel ends the registrations of all. The second
    // try succeeds then.
    for _ in 0..2 {
        if disk.register(Some(0), by.key).map_err(failed)? == RegistrarAnswer::Done {
            return Ok(());
        }
    }
    // This machine is registered with another key: one of ours, or one of another program that relies on it.
    let found = disk.registered().map_err(failed)?;
    if !found.keys.iter().any(|key| by.is_self(*key)) {
        return Err(reserved(device, found.keys.first().copied()));
    }
    match disk.register(None, by.key).map_err(failed)? {
        RegistrarAnswer::Done => Ok(()),
        RegistrarAnswer::Conflict => Err(reserved(device, None)),
    }
}

/// The refusal of a disk that another machine has reserved for a pool, or that this machine has not released. Nothing
/// is changed, and a disk that cannot be asked counts as not reserved.
pub(crate) fn left_over(disk: &dyn Registrar, device: &str) -> Result<()> {
    let holder = disk.registered().ok().and_then(|found| found.holder);
    match holder.filter(|key| is_ours(*key)) {
        Some(key) => Err(reserved(device, Some(key))),
        None => Ok(()),
    }
}

fn is_ours(key: u64) -> bool {
    key >> 48 == TAG >> 48
}

fn no_reservations(device: &str, source: &io::Error) -> Error {
    Error::NoReservations {
        device: device.into(),
        reason: source.to_string(),
    }
}

fn reserved(device: &str, key: Option<u64>) -> Error {
    let holder = match key {
        Some(key) if is_ours(key) => format!("another machine (key {key:#018x})"),
        Some(key) => format!("another program (key {key:#018x})"),
        None => "another machine".into(),
    };
    Error::Reserved {
        device: device.into(),
        holder,
    }
}
