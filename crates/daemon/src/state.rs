//! What the daemon owns.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use cipher::SystemRandom;
use dataset::{Clock, Engine, EngineOptions};
use parking_lot::Mutex;
use pool::{Entry, Env};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vfs::Time;

use crate::api::{Failure, FailureKind};
use crate::connections::Connections;
use crate::exports::Exported;
use crate::failure::Result;
use crate::guests::Guests;
use crate::imported::{Alarm, Imported};
use crate::keyholder::now_secs;
use crate::mappings::Mappings;
use crate::zones::Zones;

/// The daemon.
pub(crate) struct Daemon {
    pub(crate) engine: Arc<Engine>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) socket: PathBuf,
    state_dir: PathBuf,
    pools: Mutex<Pools>,
    /// Those that send or receive.
    pub(crate) transfers: Connections,
    /// Those who are not root.
    pub(crate) guests: Arc<Guests>,
    pub(crate) zones: Zones,
    pub(crate) exported: Exported,
    pub(crate) mappings: Mappings,
}

/// The pools that this daemon has, and those it is to have at its next start.
#[derive(Default)]
struct Pools {
    imported: BTreeMap<String, Arc<Imported>>,
    /// Not imported now, for no reason that anybody asked for: they could not be imported at the
    /// start, or were exported for the daemon to end.
    absent: Remembered,
    /// Whether the daemon is ending, so that none may be added.
    stopping: bool,
}

/// Time and chance from the system.
pub(crate) struct System;

impl Clock for System {
    fn now(&self) -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Time {
            secs: now.tv_sec,
            nanos: now.tv_nsec as u32,
        }
    }
}

impl Env for System {
    fn now(&self) -> u64 {
        now_secs()
    }

    fn elapsed(&self) -> Duration {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGIN.elapsed()
    }

    fn guid(&self) -> u64 {
        new_guid()
    }
}

/// A random number that is not 0.
pub(crate) fn new_guid() -> u64 {
    let mut bytes = [0; 8];
    cipher::Random::fill(&SystemRandom, &mut bytes).expect("the system has random numbers");
    u64::from_le_bytes(bytes).max(1)
}

/// Pools that were imported and not exported, for the next start.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Remembered {
    /// The devices of each pool, by its name.
    pub(crate) pools: BTreeMap<String, Vec<PathBuf>>,
    /// Those of them that are not to be written to.
    #[serde(default)]
    pub(crate) read_only: BTreeSet<String>,
}

impl Remembered {
    fn insert(&mut self, imported: &Imported) {
        let name = imported.pool.name();
        let devices = imported.pool.devices();
        let paths = devices.into_iter().map(|device| device.path.into());
        self.pools.insert(name.clone(), paths.collect());
        if imported.pool.is_read_only() {
            self.read_only.insert(name);
        }
    }

    fn remove(&mut self, name: &str) -> bool {
        self.read_only.remove(name);
        self.pools.remove(name).is_some()
    }
}

impl Daemon {
    pub(crate) fn new(socket: &Path, state_dir: &Path, cache_bytes: u64) -> Arc<Daemon> {
        let alarm = Arc::new(Alarm::default());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // What is not written yet is part of what was allowed.
        let dirty_bytes = (cache_bytes / 2).min(1 << 30);
        let options = EngineOptions {
            cache_bytes: cache_bytes - dirty_bytes,
            dirty_bytes,
            seal_threads: cores,
        };
        let ring = Arc::clone(&alarm);
        let engine = Engine::new(
            options,
            Arc::new(SystemRandom),
            Arc::new(System),
            move || ring.ring(),
        );
        Arc::new(Daemon {
            engine,
            alarm,
            socket: socket.to_owned(),
            state_dir: state_dir.to_owned(),
            pools: Mutex::default(),
            transfers: Connections::new(usize::MAX),
            guests: Guests::new(),
            zones: Zones::default(),
            exported: Exported::default(),
            mappings: Mappings::default(),
        })
    }

    /// The imported pools, by name.
    pub(crate) fn pools(&self) -> Vec<Arc<Imported>> {
        self.pools.lock().imported.values().cloned().collect()
    }

    /// An imported pool.
    pub(crate) fn pool(&self, name: &str) -> Result<Arc<Imported>> {
        self.pools.lock().imported.get(name).cloned().ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                format!("there is no imported pool '{name}'; 'strongroom pool import' shows those that could be"),
            )
        })
    }

    /// The pool of a dataset, and its entry.
    pub(crate) fn find(&self, name: &str) -> Result<(Arc<Imported>, Arc<Entry>)> {
        let parsed = pool::DatasetName::parse(name)?;
        let imported = self.pool(parsed.pool)?;
        let entry = imported.pool.find(name)?;
        Ok((imported, entry))
    }

    /// The pool of a dataset that need not exist yet.
    pub(crate) fn pool_of(&self, name: &str) -> Result<Arc<Imported>> {
        self.pool(pool::DatasetName::parse(name)?.pool)
    }

    /// Takes a pool in.
    pub(crate) fn add(&self, imported: Arc<Imported>) -> Result<()> {
        let name = imported.pool.name();
        let mut pools = self.pools.lock();
        if pools.stopping {
            return Err(Failure::new(FailureKind::Busy, "the daemon is ending"));
        }
        if pools.imported.contains_key(&name) {
            return Err(already_imported(&name));
        }
        pools.absent.remove(&name);
        pools.imported.insert(name, imported);
        self.remember(&pools);
        Ok(())
    }

    /// Lets a pool go, for good. False if there is none of that name, neither here nor remembered.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let mut pools = self.pools.lock();
        let was_imported = pools.imported.remove(name).is_some();
        let was_absent = pools.absent.remove(name);
        self.remember(&pools);
        was_imported || was_absent
    }

    /// Lets a pool go, until the next start.
    pub(crate) fn set_aside(&self, imported: &Imported) {
        let mut pools = self.pools.lock();
        pools.imported.remove(&imported.pool.name());
        pools.absent.insert(imported);
        self.remember(&pools);
    }

    /// Whether no more pools are taken in.
    pub(crate) fn set_stopping(&self, stopping: bool) {
        self.pools.lock().stopping = stopping;
    }

    /// Remembers the devices of the imported pools as they are now.
    pub(crate) fn remember_pools(&self) {
        self.remember(&self.pools.lock());
    }

    fn memory(&self) -> PathBuf {
        self.state_file("pools.json")
    }

    /// The path of something that is remembered.
    pub(crate) fn state_file(&self, name: &str) -> PathBuf {
        self.state_dir.join(name)
    }

    /// Reads which pools there were when the daemon last ran. They stay remembered until they are
    /// imported and exported again, also if they cannot be imported now.
    pub(crate) fn recall(&self) -> Remembered {
        let text = std::fs::read_to_string(self.memory()).unwrap_or_default();
        let remembered: Remembered = serde_json::from_str(&text).unwrap_or_else(|error| {
            if !text.is_empty() {
                let file = self.memory();
                tracing::error!(%error, file = %file.display(), "the list of pools cannot be read; import them again: strongroom pool import");
            }
            Remembered::default()
        });
        self.pools.lock().absent = remembered.clone();
        remembered
    }

    /// The devices of pools that are remembered.
    pub(crate) fn remembered_devices(&self) -> Vec<PathBuf> {
        let remembered = Daemon::to_remember(&self.pools.lock());
        remembered.pools.into_values().flatten().collect()
    }

    fn to_remember(pools: &Pools) -> Remembered {
        let mut remembered = pools.absent.clone();
        for imported in pools.imported.values() {
            remembered.insert(imported);
        }
        remembered
    }

    fn remember(&self, pools: &Pools) {
        if let Err(error) = self.write_memory(&Daemon::to_remember(pools)) {
            let file = self.memory();
            tracing::warn!(
                %error, file = %file.display(),
                "the list of imported pools could not be written; the next start imports older ones"
            );
        }
    }

    /// Reads what is remembered in a file of the state directory. What cannot be read is put aside;
    /// `again` is how to make it anew.
    pub(crate) fn recall_from<T: DeserializeOwned + Default>(&self, name: &str, again: &str) -> T {
        let file = self.state_file(name);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.is_empty() {
            return T::default();
        }
        serde_json::from_str(&text).unwrap_or_else(|error| {
            let aside = file.with_extension("json.unreadable");
            let _ = std::fs::rename(&file, &aside);
            let file = aside.display();
            tracing::error!(%error, %file, "what was remembered cannot be read and was put aside; make it again: {again}");
            T::default()
        })
    }

    /// Remembers something in a file of the state directory.
    pub(crate) fn remember_in(&self, name: &str, what: &impl Serialize) -> Result<()> {
        let file = self.state_file(name);
        let written = std::fs::create_dir_all(&self.state_dir);
        let written = written.and_then(|()| write_json(&file, what));
        written.map_err(|error| {
            Failure::other(format!("{} cannot be written: {error}", file.display()))
        })
    }

    fn write_memory(&self, remembered: &Remembered) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.state_dir)?;
        write_json(&self.memory(), remembered)
    }
}

/// Writes a file for the next start, which holds the old state or the new one.
fn write_json(path: &Path, what: &impl Serialize) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let text = serde_json::to_string_pretty(what)?;
    let mut file = std::fs::File::create(&new)?;
    file.write_all(text.as_bytes())?;
    // Or after a power cut the new name may be that of an empty file.
    file.sync_all()?;
    std::fs::rename(new, path)
}

pub(crate) fn already_imported(name: &str) -> Failure {
    Failure::new(
        FailureKind::Exists,
        format!("a pool '{name}' is imported already; give the other one a new name"),
    )
}
