//! The mappings that the daemon opens at its start, and the pools on them.
//!
//! The table is in the state directory. It has what `luks open --persistent-open` was told, and no key. Pools and
//! mappings that lie on each other are opened from the lowest up. A mapping that cannot be opened waits, and so do the
//! pools and mappings on it: for a device, until one appears; for a key, until a command opens the mapping.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::api::{FailureKind, command};
use protocol::device_name::DeviceName;

use crate::failure::{Failure, Result};
use crate::ops::devices::layers::{Carrier, below};
use crate::ops::mappings::commands::USER;
use crate::state::callers::channel::NonInteractive;
use crate::state::daemon::Daemon;
use crate::state::devices::device_name;
use crate::state::devices::mapping_table::{Entry, KnownMapping, MappingProblem, OpenMapping};
use crate::state::memory::KnownPool;

/// The file in the state directory that has the table.
const MEMORY: &str = "mappings.json";

/// The time for the keys of pools that are imported because their mapping was opened.
const KEY_TIME: Duration = Duration::from_secs(20);

impl Daemon {
    /// Reads the table. The mappings are not open yet.
    pub(crate) fn recall_mappings(&self) -> BTreeMap<String, KnownMapping> {
        let known: BTreeMap<String, KnownMapping> =
            self.recall_from(MEMORY, "strongroom luks open --persistent-open");
        *self.mappings.known.lock() = known.clone();
        known
    }

    /// Refuses the name of another mapping of the table.
    pub(super) fn check_known(&self, new: &command::LuksOpen) -> Result<()> {
        let known = self.mappings.known.lock();
        match known.get(&new.name) {
            Some(known) if !device_name::is_same(&known.open.device, &new.device) => {
                let (name, device) = (&new.name, known.open.device.display());
                Err(Failure::new(
                    FailureKind::Exists,
                    format!(
                        "the daemon opens a mapping '{name}' of {device} at its start; to forget it: strongroom \
                         luks close {name}"
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Adds an open mapping to the table, if it is to be there.
    pub(super) fn remember_mapping(&self, open: &command::LuksOpen) -> Result<()> {
        let mut known = self.mappings.known.lock();
        if open.at_start.is_some() {
            let mapping = KnownMapping {
                // Later changes of the options in the header stay.
                open: command::LuksOpen {
                    persistent: false,
                    ..open.clone()
                },
                waits: None,
            };
            let before = known.insert(open.name.clone(), mapping);
            if let Err(failure) = self.remember_in(MEMORY, &*known) {
                match before {
                    Some(before) => known.insert(open.name.clone(), before),
                    None => known.remove(&open.name),
                };
                return Err(failure);
            }
        }
        if let Some(mapping) = known.get_mut(&open.name) {
            mapping.waits = None;
        }
        Ok(())
    }

    /// Removes a mapping from the table, if it is there.
    pub(super) fn forget_mapping(&self, name: &str) -> Result<()> {
        let mut known = self.mappings.known.lock();
        let Some(mapping) = known.remove(name) else {
            return Ok(());
        };
        self.remember_in(MEMORY, &*known).inspect_err(|_| {
            known.insert(name.into(), mapping);
        })
    }

    /// Removes a mapping that is not open from the table. False if there is no such mapping.
    pub(super) fn forget_waiting(&self, name: &str) -> Result<bool> {
        let is_open = self.mappings.all.lock().contains_key(name);
        if is_open || !self.mappings.known.lock().contains_key(name) {
            return Ok(false);
        }
        self.forget_mapping(name).map(|()| true)
    }

    /// Opens a mapping of the table. If that is impossible, the mapping waits, and an event says why.
    pub(crate) fn open_known(&self, name: &str) -> bool {
        let Some(known) = self.mappings.known.lock().get(name).cloned() else {
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
        if let Some(known) = self.mappings.known.lock().get_mut(name) {
            known.waits = waits;
            self.events.add(class, "-", &text);
        }
    }

    /// Opens the mappings that wait for a device which is here now, and imports the pools on them.
    pub(crate) fn restore_mappings(self: &Arc<Self>) {
        let _one = self.mappings.restoring.lock();
        loop {
            let known = self.mappings.known.lock().clone();
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
            opened.iter().for_each(|name| self.import_above(name));
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
            DeviceName::Nbd(_) | DeviceName::Unsupported(_) => Ok(()),
        }
    }

    /// Imports the pools that waited for a mapping of the table, now that the mapping is open.
    pub(super) fn import_above(self: &Arc<Self>, name: &str) {
        if !self.mappings.known.lock().contains_key(name) {
            return;
        }
        let mapping = Carrier::Mapping(name.into());
        let places: Vec<PathBuf> = self.pool_table.remembered_devices();
        for (pool, known) in self.pool_table.absent() {
            let own = known.paths();
            let is_above = below(own.iter().map(PathBuf::as_path)).contains(&mapping);
            // One that an older program imported has no guid, and is imported by a command.
            if is_above && known.guid.is_some() {
                self.import_again(&pool, &known, &places, Instant::now() + KEY_TIME);
            }
        }
    }

    /// The mapping of the table that a pool waits for, and why it waits.
    pub(crate) fn awaited_mapping(&self, known: &KnownPool) -> Option<(KnownMapping, String)> {
        let all = self.mappings.all.lock();
        let table = self.mappings.known.lock();
        known.devices.iter().find_map(|device| {
            let DeviceName::Luks(name) = DeviceName::parse(&device.path) else {
                return None;
            };
            let mapping = table.get(name)?;
            let is_open = matches!(all.get(name), Some(Entry::Open(_)));
            let waits = mapping.waits.as_ref();
            let reason = waits.map_or("it is not open yet", |waits| &waits.reason);
            (!is_open).then(|| (mapping.clone(), reason.to_owned()))
        })
    }

    /// The paths of the devices of each open mapping that lies on a device of the daemon.
    pub(crate) fn mappings_on_lent(&self) -> BTreeMap<String, Vec<PathBuf>> {
        let all = self.mappings.all.lock();
        let open = all.iter().filter_map(|(name, entry)| match entry {
            Entry::Open(open) => Some((name, &**open)),
            Entry::Changing => None,
        });
        let on_lent =
            open.filter(|(_, open)| open.places().any(|it| !DeviceName::parse(it).is_path()));
        let places = |(name, open): (&String, &OpenMapping)| {
            (name.clone(), open.places().map(Path::to_owned).collect())
        };
        on_lent.map(places).collect()
    }

    /// Refuses to end the daemon while a mapping on a volume is open that the next start does not open: its key would be
    /// lost.
    pub(crate) fn may_end_mappings(&self) -> Result<()> {
        let on_lent = self.mappings_on_lent();
        let known = self.mappings.known.lock();
        match on_lent.iter().find(|(name, _)| !known.contains_key(*name)) {
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
        if let Some(known) = self.mappings.known.lock().get_mut(name) {
            known.waits = Some(MappingProblem {
                reason: "the daemon was about to end".into(),
                for_device: true,
            });
        }
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
                Carrier::Mapping(name) => match self.mappings.all.lock().get(name) {
                    Some(Entry::Open(open)) => open.places().map(Path::to_owned).collect(),
                    _ => Vec::new(),
                },
            };
            if all.insert(carrier) {
                next.extend(below(places.iter().map(PathBuf::as_path)));
            }
        }
        all
    }
}
