//! What the daemon owns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cipher::SystemRandom;
use dataset::{Clock, Engine, EngineOptions};
use parking_lot::Mutex;
use pool::{Entry, Env};
use serde::{Deserialize, Serialize};
use vfs::Time;

use crate::api::{Failure, FailureKind};
use crate::failure::Result;
use crate::imported::{Alarm, Imported};
use crate::keyholder::now_secs;

/// The end of the daemon waits so long for commands that are under way.
const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon.
pub(crate) struct Daemon {
    pub(crate) engine: Arc<Engine>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) socket: PathBuf,
    state_dir: PathBuf,
    pools: Mutex<BTreeMap<String, Arc<Imported>>>,
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
#[derive(Default, Serialize, Deserialize)]
struct Remembered {
    /// The devices of each pool, by its name.
    pools: BTreeMap<String, Vec<PathBuf>>,
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
        })
    }

    /// The imported pools, by name.
    pub(crate) fn pools(&self) -> Vec<Arc<Imported>> {
        self.pools.lock().values().cloned().collect()
    }

    /// An imported pool.
    pub(crate) fn pool(&self, name: &str) -> Result<Arc<Imported>> {
        self.pools.lock().get(name).cloned().ok_or_else(|| {
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
        if pools.contains_key(&name) {
            return Err(already_imported(&name));
        }
        pools.insert(name, imported);
        drop(pools);
        self.remember();
        Ok(())
    }

    /// Lets a pool go.
    pub(crate) fn remove(&self, name: &str) {
        self.pools.lock().remove(name);
        self.remember();
    }

    fn memory(&self) -> PathBuf {
        self.state_dir.join("pools.json")
    }

    /// The devices of pools that were imported when the daemon last ran.
    pub(crate) fn remembered(&self) -> BTreeMap<String, Vec<PathBuf>> {
        let text = std::fs::read_to_string(self.memory()).unwrap_or_default();
        let remembered: Remembered = serde_json::from_str(&text).unwrap_or_default();
        remembered.pools
    }

    fn remember(&self) {
        let pools = self.pools.lock();
        let pools = pools
            .iter()
            .map(|(name, imported)| {
                let devices = imported.pool.devices();
                (
                    name.clone(),
                    devices
                        .into_iter()
                        .map(|device| device.path.into())
                        .collect(),
                )
            })
            .collect();
        if let Err(error) = self.write_memory(&Remembered { pools }) {
            tracing::warn!(%error, "the list of imported pools could not be written");
        }
    }

    fn write_memory(&self, remembered: &Remembered) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.state_dir)?;
        let new = self.state_dir.join("pools.json.new");
        let text = serde_json::to_string_pretty(remembered)?;
        std::fs::write(&new, text)?;
        std::fs::rename(new, self.memory())
    }

    /// Unmounts everything and commits it. Pools stay marked as this host's, as after a crash but
    /// with nothing lost, and are imported again at the next start.
    pub(crate) fn shut_down(self: &Arc<Self>, force: bool) -> Result<()> {
        let pools = self.pools();
        let mut admin = Vec::new();
        for imported in &pools {
            match imported.admin.try_lock_for(PATIENCE) {
                Some(guard) => admin.push(guard),
                // It may wait for somebody who has gone, at a prompt.
                None if force => tracing::warn!(
                    pool = imported.pool.name(),
                    "a command is cut short by the end of the daemon"
                ),
                None => {
                    let name = imported.pool.name();
                    return Err(Failure::new(
                        FailureKind::Busy,
                        format!("another command is under way for pool '{name}'"),
                    ));
                }
            }
        }
        // While anything is in use the daemon goes on, and looks after every pool.
        for imported in &pools {
            self.unmount_all(imported, &imported.mounted_ids(), force)?;
        }
        for imported in &pools {
            imported.dismiss_keeper();
            if !imported.pool.is_read_only() {
                imported.pool.commit()?;
            }
        }
        self.pools.lock().clear();
        Ok(())
    }
}

pub(crate) fn already_imported(name: &str) -> Failure {
    Failure::new(
        FailureKind::Exists,
        format!("a pool '{name}' is imported already; give the other one a new name"),
    )
}
