//! The devices that targets show, and to which initiators.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use block::BlockDevice;
use parking_lot::Mutex;

use crate::scsi::reservation::Reservations;
use crate::scsi::unit::{ReservationStore, ScsiUnit, UnitIdentity};
use crate::targets::san_identity::SanIdentity;
use crate::{Error, Result};

/// A name has at most so many bytes.
const NAME_MAX: usize = 223;
/// The highest number of a unit that its 14 bits can say.
const LUN_MAX: u16 = 0x3fff;
/// The time that a removal waits for the commands of sessions that it has ended.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A logical unit: a device with a number that tells it from all others. Several targets may show it, under several
/// numbers of their own.
pub struct LogicalUnit {
    unit: Arc<ScsiUnit>,
    ended: Mutex<Receiver<Infallible>>,
}

/// A rule that shows a unit to initiators of a target.
#[derive(Clone)]
pub struct LunView {
    /// The number of the unit there, below 16,384.
    pub(crate) lun: u16,
    pub(crate) unit: Arc<ScsiUnit>,
    pub(crate) initiators: Option<BTreeSet<String>>,
    pub(crate) read_only: bool,
}

impl LogicalUnit {
    /// A unit for a device. `name` is for the log; `number` tells it from all others.
    ///
    /// # Errors
    /// [`Error::Unaligned`] if the size of the device is no multiple of its logical sectors: the rest could not be
    /// reached.
    pub fn new(
        name: &str,
        number: u64,
        device: Arc<dyn BlockDevice>,
        read_only: bool,
    ) -> Result<LogicalUnit> {
        LogicalUnit::with_keeper(name, number, device, read_only, None)
    }

    /// Makes a unit with the identity of a unit of another storage. `keeper` stores persistent reservations. Without
    /// one they end with the unit. See [`LogicalUnit::new`].
    ///
    /// # Errors
    /// As [`LogicalUnit::new`]; [`Error::BlockSize`] if the device has no such blocks; [`Error::Reservations`] if those that
    /// were kept cannot be read.
    pub fn with_keeper(
        name: &str,
        identity: impl Into<SanIdentity>,
        device: Arc<dyn BlockDevice>,
        read_only: bool,
        keeper: Option<Arc<dyn ReservationStore>>,
    ) -> Result<LogicalUnit> {
        let (identity, size) = (identity.into(), device.size());
        let least = device.sector_sizes().logical;
        let sector = identity.block.unwrap_or(least);
        if !sector.is_multiple_of(least) {
            return Err(Error::BlockSize {
                device: device.name(),
                block: sector,
                least,
            });
        }
        if !size.is_multiple_of(u64::from(sector)) {
            return Err(Error::Unaligned {
                device: device.name(),
                size,
                sector,
            });
        }
        let identity = UnitIdentity {
            name: name.into(),
            serial: identity.shown_serial(),
            naa: identity.shown_naa(),
            block: sector,
        };
        let reservations = match &keeper {
            Some(keeper) => kept(name, &**keeper)?,
            None => Reservations::default(),
        };
        let (unit, ended) = ScsiUnit::new(device, identity, read_only, keeper, reservations);
        Ok(LogicalUnit {
            unit: Arc::new(unit),
            ended: Mutex::new(ended),
        })
    }

    /// Shows it under a number: to the initiators with these names, or to all.
    ///
    /// # Errors
    /// [`Error::Lun`] if there is no such number; [`Error::Name`].
    pub fn view(
        &self,
        lun: u16,
        initiators: Option<&BTreeSet<String>>,
        read_only: bool,
    ) -> Result<LunView> {
        if lun > LUN_MAX {
            return Err(Error::Lun { lun });
        }
        for name in initiators.into_iter().flatten() {
            check_name(&name.to_ascii_lowercase())?;
        }
        let small = |names: &BTreeSet<String>| {
            let names = names.iter().map(|name| name.to_ascii_lowercase());
            names.collect()
        };
        Ok(LunView {
            lun,
            unit: Arc::clone(&self.unit),
            initiators: initiators.map(small),
            read_only,
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.unit.device
    }

    /// Returns the holder of its reservation.
    pub fn reserved(&self) -> ReservedNow {
        reserved(&self.unit)
    }

    /// Waits until no command uses its device, which is let go of then. No view shows it any more.
    ///
    /// # Errors
    /// [`Error::Busy`] if a command is still being carried out after ten seconds.
    pub fn close(self) -> Result<()> {
        LogicalUnit::close_all([self])
            .into_iter()
            .next()
            .map_or(Ok(()), Err)
    }

    /// The same for several units, beside each other. Returns those that are still in use after ten seconds.
    pub fn close_all(units: impl IntoIterator<Item = LogicalUnit>) -> Vec<Error> {
        let end = Instant::now() + PATIENCE;
        // First all are let go of, then they are waited for.
        let units = units.into_iter().map(|own| {
            let name = own.unit.identity.name.clone();
            (name, own.ended)
        });
        let units: Vec<_> = units.collect();
        let left = units.into_iter().filter_map(|(name, ended)| {
            let left = end.saturating_duration_since(Instant::now());
            match ended.lock().recv_timeout(left) {
                Err(RecvTimeoutError::Disconnected) => None,
                Err(RecvTimeoutError::Timeout) => Some(Error::Busy { name }),
                Ok(never) => match never {},
            }
        });
        left.collect()
    }
}

impl LunView {
    /// Returns whether an initiator sees the unit.
    pub(crate) fn shows(&self, initiator: &str) -> bool {
        let names = self.initiators.as_ref();
        names.is_none_or(|names| names.contains(initiator))
    }
}

/// The registrations and the reservation of a unit, for people.
#[derive(Clone, Debug, Default)]
pub struct ReservedNow {
    /// The number of initiators that have registered a key.
    pub registrations: usize,
    /// The type of the reservation, if there is one.
    pub kind: Option<&'static str>,
    /// The initiators that hold it.
    pub holders: Vec<String>,
}

pub(crate) fn reserved(unit: &ScsiUnit) -> ReservedNow {
    let reservations = unit.reservations();
    let (registrations, held) = reservations.summary();
    let holders = held.iter().flat_map(|held| &held.1);
    ReservedNow {
        registrations,
        holders: holders.map(|it| it.initiator.clone()).collect(),
        kind: held.map(|held| held.0),
    }
}

fn kept(name: &str, keeper: &dyn ReservationStore) -> Result<Reservations> {
    let failed = |what: String| Error::Reservations {
        name: name.into(),
        what,
    };
    let text = keeper.load().map_err(|error| failed(error.to_string()))?;
    match text.as_deref().map(Reservations::from_text) {
        None => Ok(Reservations::default()),
        Some(Some(read)) => Ok(read),
        Some(None) => Err(failed("they have no known format".into())),
    }
}

/// Refuses what is not an iSCSI name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let refuse = |what| {
        Err(Error::Name {
            name: name.chars().take(64).collect(),
            what,
        })
    };
    let may = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | ':' | '-');
    match name {
        long if long.len() > NAME_MAX => refuse("it is longer than 223 bytes"),
        odd if !odd.chars().all(may) => {
            refuse("it may have small letters, digits, '.', ':' and '-' only")
        }
        known
            if ["iqn.", "eui.", "naa."]
                .iter()
                .any(|it| known.starts_with(it)) =>
        {
            Ok(())
        }
        _ => refuse("it has to begin with iqn., eui. or naa., as in iqn.2026-01.org.example:disk"),
    }
}
