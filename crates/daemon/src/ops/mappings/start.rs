//! The mappings that the daemon opens at its start, and the pools on them.
//!
//! The table is in the state directory. It has what `luks open --persistent-open` was told, and no key. Pools and
//! mappings that lie on each other are opened from the lowest up. A mapping that cannot be opened waits, and so do the
//! pools and mappings on it: for a device, until one appears; for a key, until a command opens the mapping.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::api::FailureKind;
use protocol::device_name::DeviceName;

use crate::failure::{Failure, Result};
use crate::ops::devices::layers::{Carrier, below};
use crate::ops::mappings::commands::USER;
use crate::state::callers::channel::NonInteractive;
use crate::state::daemon::Daemon;
use crate::state::devices::mapping_table::{KnownMapping, MappingProblem, OpenMapping};
use crate::state::memory::KnownPool;

/// The time for the keys of pools that are imported because their mapping was opened.
const KEY_TIME: Duration = Duration::from_secs(20);

impl Daemon {
    /// Opens a mapping of the table. If that is impossible, the mapping waits, and an event says why.
    pub(crate) fn open_known(&self, name: &str) -> bool {
        let Some(known) = self.mappings.all_known().remove(name) else {
            return false;
        };
        let missing = known.places().find_map(|place| self.look_for(place).err());
        let mut nobody = NonInteractive::default();
        let (failure, for_device) = match missing {
            Some(failure) => (failure, true),
            None => match self.add_mapping(&known.open, &mut nobody) {
                Ok(()) => {
                    self.note_waiting(name, None);
                    return true;
                }
                // A command has opened it meanwhile.
                Err(failure) if failure.kind == FailureKind::Exists => return false,
                Err(failure) => (failure, false),
            },
        };
        nobody.log();
        let reason = failure.message;
        tracing::error!(mapping = name, reason, "the mapping waits");
        self.note_waiting(name, Some(MappingProblem { reason, for_device }));
        false
    }

    fn note_waiting(&self, name: &str, waits: Option<MappingProblem>) {
        let text = match &waits {
            None => format!("the mapping '{name}' was opened"),
            Some(waits) => format!("the mapping '{name}' waits: {}", waits.reason),
        };
        let class = match waits {
            None => "mapping_open",
            Some(_) => "mapping_wait",
        };
        if self.mappings.note(name, waits) {
            self.events.add(class, "-", &text);
        }
    }

    /// Opens the mappings that wait for a device which is here now, and imports the pools on them.
    pub(crate) fn restore_mappings(self: &Arc<Self>) {
        let _one = self.mappings.restoring.lock();
        loop {
            let known = self.mappings.all_known();
            let waits = |known: &KnownMapping| {
                known.waits.as_ref().is_some_and(|waits| waits.for_device)
                    && known.places().all(|place| self.look_for(place).is_ok())
            };
            let waiting = { known.iter() }
                .filter(|(_, known)| waits(known))
                .map(|(name, _)| name);
            let opened: Vec<&String> = waiting.filter(|name| self.open_known(name)).collect();
            if opened.is_empty() {
                return;
            }
            for name in opened {
                self.import_above(&Carrier::Mapping(name.clone()));
            }
        }
    }

    /// Fails if a device is not here. Other machines are not asked.
    fn look_for(&self, place: &Path) -> Result<()> {
        match DeviceName::parse(place) {
            DeviceName::Luks(mapping) => self.mapping_device(mapping).map(drop),
            DeviceName::Volume(volume) => self.look_at_volume(volume, USER).map(drop),
            DeviceName::Path(path) => match std::fs::metadata(path) {
                Ok(_) => Ok(()),
                Err(source) => Err(block::Error::Open {
                    path: path.display().to_string(),
                    source,
                }
                .into()),
            },
            DeviceName::Nbd(_) | DeviceName::Object(_) | DeviceName::Unsupported(_) => Ok(()),
        }
    }

    /// Imports the pools that waited for a pool or for a mapping of the table, now that this is there.
    pub(crate) fn import_above(self: &Arc<Self>, carrier: &Carrier) {
        if matches!(carrier, Carrier::Mapping(name) if !self.mappings.is_known(name)) {
            return;
        }
        let places: Vec<PathBuf> = self.pool_table.remembered_devices();
        for (pool, known) in self.pool_table.absent() {
            let own = known.paths();
            let is_above = below(own.iter().map(PathBuf::as_path)).contains(carrier);
            // One that an older program imported has no guid, and is imported by a command.
            if is_above && known.guid.is_some() {
                let until = Instant::now() + KEY_TIME;
                drop(self.import_again(&pool, &known, &places, until));
            }
        }
    }

    /// The mapping of the table that a pool waits for, and why it waits.
    pub(crate) fn awaited_mapping(&self, known: &KnownPool) -> Option<(KnownMapping, String)> {
        known.devices.iter().find_map(|device| {
            let DeviceName::Luks(name) = DeviceName::parse(&device.path) else {
                return None;
            };
            let mapping = self.mappings.known_and_closed(name)?;
            let waits = mapping.waits.as_ref();
            let reason = waits.map_or("it is not open yet", |waits| &waits.reason);
            let reason = reason.to_owned();
            Some((mapping, reason))
        })
    }

    /// The paths of the devices of each open mapping that lies on a device of the daemon.
    pub(crate) fn mappings_on_lent(&self) -> BTreeMap<String, Vec<PathBuf>> {
        let is_lent = |place: &Path| !DeviceName::parse(place).is_path();
        let on_lent = self.mappings.map_open(|name, open| {
            let places: Vec<PathBuf> = open.places().map(Path::to_owned).collect();
            let is_on_lent = places.iter().any(|place| is_lent(place));
            is_on_lent.then(|| (name.to_owned(), places))
        });
        on_lent.into_iter().collect()
    }

    /// Refuses to end the daemon while a mapping on a volume is open that the next start does not open: its key would be
    /// lost.
    pub(crate) fn may_end_mappings(&self) -> Result<()> {
        let on_lent = self.mappings_on_lent();
        let is_lost = |name: &str| !self.mappings.is_known(name);
        match on_lent.iter().find(|(name, _)| is_lost(name)) {
            None => Ok(()),
            Some((name, places)) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "{} is in use, by the mapping '{name}', which the next start does not open; close it first: \
                     strongroom luks close {name}",
                    places
                        .first()
                        .map_or(Path::new("-"), PathBuf::as_path)
                        .display()
                ),
            )),
        }
    }

    /// Closes a mapping because the daemon ends. The next start opens it, if it is in the table.
    pub(crate) fn set_mapping_aside(&self, name: &str) -> Result<()> {
        self.close_after(name, || Ok(()))?;
        let problem = MappingProblem {
            reason: "the daemon was about to end".into(),
            for_device: true,
        };
        self.mappings.note(name, Some(problem));
        Ok(())
    }

    /// Refuses a device that lies on the pool which is to use it: each would wait for the other.
    pub(crate) fn refuse_circle(&self, pool: &str, device: &Path) -> Result<()> {
        let own = Carrier::Pool(pool.into());
        match self.all_below(&[device.to_owned()]).contains(&own) {
            false => Ok(()),
            true => Err(Failure::usage(format!(
                "{} lies on the pool '{pool}' itself",
                device.display()
            ))),
        }
    }

    /// Refuses to suspend a mapping under an imported pool: its commits would wait, and with them its commands.
    pub(super) fn refuse_under_pool(&self, name: &str) -> Result<()> {
        let mapping = Carrier::Mapping(name.into());
        let pools = self.pools();
        let above = { pools.iter() }
            .find(|active| self.all_below(&active.known().paths()).contains(&mapping));
        match above {
            None => Ok(()),
            Some(active) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the pool '{}' lies on the mapping '{name}'; export it first",
                    active.pool.name()
                ),
            )),
        }
    }

    /// The pools and mappings below devices with these paths, at any depth.
    fn all_below(&self, paths: &[PathBuf]) -> BTreeSet<Carrier> {
        let mut all = BTreeSet::new();
        let mut next = below(paths.iter().map(PathBuf::as_path));
        while let Some(carrier) = next.pop() {
            let places: Vec<PathBuf> = match &carrier {
                Carrier::Pool(name) => {
                    { self.pool(name) }.map_or_else(|_| Vec::new(), |active| active.known().paths())
                }
                Carrier::Mapping(name) => {
                    let places =
                        |open: &mut OpenMapping| Ok(open.places().map(Path::to_owned).collect());
                    { self.mappings.with_open(name, places) }.unwrap_or_default()
                }
            };
            if all.insert(carrier) {
                next.extend(below(places.iter().map(PathBuf::as_path)));
            }
        }
        all
    }
}
