//! The daemon, with all tables that it owns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher::SystemRandom;
use dataset::{Engine, EngineOptions};
use fuse::ListedMount;
use parking_lot::Mutex;
use pool::Entry;
use protocol::api::FailureKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::NewMember;

use crate::failure::{Failure, Result};
use crate::host::process::system::System;
use crate::host::process::wakeup::Wakeup;
use crate::state::callers::budget::Budgets;
use crate::state::callers::command_connections::CommandConnections;
use crate::state::callers::connections::Connections;
use crate::state::callers::tokens::Tokens;
use crate::state::devices::mapping_table::Mappings;
use crate::state::devices::remote_exports::RemoteExports;
use crate::state::exports::ha_targets::HaTable;
use crate::state::exports::registry::ExportTable;
use crate::state::front_end::FrontEnd;
use crate::state::keys::acceptances::Acceptances;
use crate::state::memory::{KnownDevice, KnownPool, RememberedPools, StateDir};
use crate::state::mounts::mount_records::{MountRecords, RecordedMount};
use crate::state::mounts::mounted_dirs::MountedDirs;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::events::EventLog;
use crate::state::pools::exported_pools::ExportedPools;
use crate::state::pools::last_end::LastRun;
use crate::state::zones::zone::Zones;

/// The file in the state directory that remembers imported pools.
const MEMORY: &str = "pools.json";

/// The daemon.
pub(crate) struct Daemon {
    pub(crate) engine: Arc<Engine>,
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) socket: PathBuf,
    state: Arc<StateDir>,
    /// The places of keys that may be read.
    pub(crate) accepted: Arc<Acceptances>,
    /// The tokens of callers that cannot connect as their user.
    pub(crate) tokens: Tokens,
    pools: Mutex<Pools>,
    /// Connections of commands that send or receive.
    pub(crate) transfers: Connections,
    /// Connections at all sockets.
    pub(crate) guests: Arc<CommandConnections>,
    /// Work for users other than root.
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) events: Arc<EventLog>,
    /// The directories of the mounts of all pools.
    pub(crate) mounted_dirs: Arc<MountedDirs>,
    pub(crate) exported_pools: ExportedPools,
    pub(crate) zones: Zones,
    pub(crate) exported: ExportTable,
    pub(crate) served: HaTable,
    pub(crate) mappings: Mappings,
    /// Exports of other servers that are in use.
    pub(crate) remote_exports: Arc<RemoteExports>,
    pub(crate) front_ends: &'static [&'static dyn FrontEnd<Daemon>],
    /// The mounts of a killed daemon, until they are mounted again.
    pub(crate) dead_mounts: Mutex<Vec<(RecordedMount, ListedMount)>>,
    /// The record of how the last daemon with this state directory ended.
    pub(crate) last_run: LastRun,
    /// The mounts of this process, for the start after a crash.
    pub(crate) mount_records: MountRecords,
}

/// The imported pools, and the pools that the next start imports.
#[derive(Default)]
struct Pools {
    active: BTreeMap<String, Arc<ActivePool>>,
    /// Pools that are not imported now, although no command exported them: they could not be imported at the start, or
    /// were exported when the daemon ended.
    absent: RememberedPools,
    /// Devices that are about to join a pool, by its name. If the daemon ends before it is known whether they have
    /// joined, the next start searches them too.
    joining: Vec<(String, KnownDevice)>,
    /// Pools that are just getting another guid, by their names. They are exported meanwhile, and the next start must
    /// find them with either guid.
    renumbered: BTreeMap<String, KnownPool>,
    /// The guids of pools that the next start does not import, because a cluster decides which machine has them.
    unremembered: BTreeSet<u64>,
    /// True once the daemon is ending. Then no pool may be added.
    stopping: bool,
    /// The reason why the list of pools was not written, if it was not.
    unsaved: Option<String>,
}

impl Daemon {
    pub(crate) fn new(
        socket: &Path,
        state_dir: &Path,
        cache_bytes: u64,
        front_ends: &'static [&'static dyn FrontEnd<Daemon>],
    ) -> Arc<Daemon> {
        let wakeup = Arc::new(Wakeup::default());
        let state = Arc::new(StateDir::new(state_dir));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // What is not written yet is part of what was allowed.
        let dirty_bytes = (cache_bytes / 2).min(1 << 30);
        let options = EngineOptions {
            cache_bytes: cache_bytes - dirty_bytes,
            dirty_bytes,
            seal_threads: cores,
        };
        let wake = Arc::clone(&wakeup);
        let engine = Engine::new(
            options,
            Arc::new(SystemRandom),
            Arc::new(System),
            move || wake.wake(),
        );
        Arc::new(Daemon {
            engine,
            wakeup,
            socket: socket.to_owned(),
            accepted: Acceptances::new(&state),
            tokens: Tokens::new(&state),
            exported_pools: ExportedPools::new(&state),
            last_run: LastRun::new(&state),
            state,
            pools: Mutex::default(),
            transfers: Connections::new(usize::MAX),
            guests: Arc::new(CommandConnections::new()),
            budgets: Arc::default(),
            events: Arc::default(),
            mounted_dirs: Arc::default(),
            zones: Zones::default(),
            exported: ExportTable::default(),
            served: HaTable::default(),
            mappings: Mappings::default(),
            remote_exports: Arc::default(),
            front_ends,
            dead_mounts: Mutex::default(),
            mount_records: MountRecords::new(state_dir),
        })
    }

    /// The imported pools, by name.
    pub(crate) fn pools(&self) -> Vec<Arc<ActivePool>> {
        self.pools.lock().active.values().cloned().collect()
    }

    /// An imported pool.
    pub(crate) fn pool(&self, name: &str) -> Result<Arc<ActivePool>> {
        self.pools.lock().active.get(name).cloned().ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                format!("there is no imported pool '{name}'; 'strongroom pool import' lists pools that can be imported"),
            )
        })
    }

    /// The pool of a dataset, and its entry.
    pub(crate) fn find(&self, name: &str) -> Result<(Arc<ActivePool>, Arc<Entry>)> {
        let parsed = pool::DatasetName::parse(name)?;
        let active = self.pool(parsed.pool)?;
        let entry = active.pool.find(name)?;
        Ok((active, entry))
    }

    /// The pool of a dataset that need not exist yet.
    pub(crate) fn pool_of(&self, name: &str) -> Result<Arc<ActivePool>> {
        self.pool(pool::DatasetName::parse(name)?.pool)
    }

    /// Sets whether the next start imports the pool with this guid. The next [`Daemon::add`] applies it.
    pub(crate) fn set_remembered(&self, guid: u64, is_remembered: bool) {
        let mut pools = self.pools.lock();
        match is_remembered {
            true => drop(pools.unremembered.remove(&guid)),
            false => drop(pools.unremembered.insert(guid)),
        }
    }

    /// Returns whether the next start imports the pool with this guid.
    pub(crate) fn is_remembered(&self, guid: u64) -> bool {
        !self.pools.lock().unremembered.contains(&guid)
    }

    /// Adds an imported pool.
    pub(crate) fn add(&self, active: Arc<ActivePool>) -> Result<()> {
        let name = active.pool.name();
        let mut pools = self.pools.lock();
        if pools.stopping {
            return Err(Failure::new(FailureKind::Busy, "the daemon is ending"));
        }
        if pools.active.contains_key(&name) {
            return Err(already_imported(&name));
        }
        let guid = active.pool.guid();
        pools.absent.remove(&name);
        // It may have another name now.
        pools
            .absent
            .pools
            .retain(|_, known| known.guid != Some(guid));
        pools.active.insert(name, active);
        self.remember(&mut pools);
        drop(pools);
        self.exported_pools.remove(guid);
        Ok(())
    }

    /// Removes a pool for good. False if no imported or remembered pool has this name.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let mut pools = self.pools.lock();
        let was_imported = pools.active.remove(name).is_some();
        let was_absent = pools.absent.remove(name);
        self.remember(&mut pools);
        was_imported || was_absent
    }

    /// Removes a pool until the next start.
    pub(crate) fn set_aside(&self, active: &ActivePool) {
        let mut pools = self.pools.lock();
        pools.active.remove(&active.pool.name());
        if !pools.unremembered.contains(&active.pool.guid()) {
            pools.absent.insert(active.pool.name(), active.known());
        }
        self.remember(&mut pools);
    }

    /// Remembers a pool that is about to be exported and imported again, so that it is not lost if the daemon ends in
    /// between.
    pub(crate) fn remember_renumbered(&self, name: &str, known: KnownPool) {
        let mut pools = self.pools.lock();
        pools.renumbered.insert(name.to_owned(), known);
        self.remember(&mut pools);
    }

    /// Called when the pool was exported, so that the next start imports it, or when it stayed (`is_let_go` false).
    pub(crate) fn settle_renumbered(&self, name: &str, is_let_go: bool) {
        let mut pools = self.pools.lock();
        if let Some(known) = pools.renumbered.remove(name).filter(|_| is_let_go) {
            pools.absent.insert(name.to_owned(), known);
        }
        self.remember(&mut pools);
    }

    /// Sets whether the daemon is stopping. Then no more pools are imported.
    pub(crate) fn set_stopping(&self, stopping: bool) {
        self.pools.lock().stopping = stopping;
    }

    /// Remembers the present devices of the imported pools.
    pub(crate) fn remember_pools(&self) {
        self.remember(&mut self.pools.lock());
    }

    /// Remembers devices that are about to join a pool, before they do.
    pub(crate) fn remember_joining(&self, pool: &str, devices: &[&NewMember]) {
        let mut pools = self.pools.lock();
        let joining = devices.iter().map(|new| {
            let device = KnownDevice {
                path: new.device.name().into(),
                guid: Some(new.guid),
            };
            (pool.to_owned(), device)
        });
        pools.joining.extend(joining);
        self.remember(&mut pools);
    }

    /// Forgets the devices that were about to join a pool. From now on the pool knows its devices.
    pub(crate) fn remember_joined(&self, pool: &str) {
        let mut pools = self.pools.lock();
        pools.joining.retain(|(name, _)| name != pool);
        self.remember(&mut pools);
    }

    /// Reads the pools that were imported when the daemon last ran. Even if they cannot be imported now, they stay
    /// remembered until they are imported and exported again.
    pub(crate) fn recall(&self) -> RememberedPools {
        let remembered: RememberedPools = self.recall_from(MEMORY, "strongroom pool import");
        self.pools.lock().absent = remembered.clone();
        remembered
    }

    /// The pools that could not be imported at the start, by name.
    pub(crate) fn absent(&self) -> BTreeMap<String, KnownPool> {
        self.pools.lock().absent.pools.clone()
    }

    /// Notes why a pool could not be imported.
    pub(crate) fn note_absent(&self, name: &str, reason: &str) {
        if let Some(known) = self.pools.lock().absent.pools.get_mut(name) {
            known.reason = Some(reason.to_owned());
        }
    }

    /// The devices of pools that are remembered.
    pub(crate) fn remembered_devices(&self) -> Vec<PathBuf> {
        Daemon::to_remember(&self.pools.lock()).paths()
    }

    fn to_remember(pools: &Pools) -> RememberedPools {
        let mut remembered = pools.absent.clone();
        let is_remembered =
            |active: &&Arc<ActivePool>| !pools.unremembered.contains(&active.pool.guid());
        for active in pools.active.values().filter(is_remembered) {
            remembered.insert(active.pool.name(), active.known());
        }
        for (name, known) in &pools.renumbered {
            remembered.insert(name.clone(), known.clone());
        }
        for (name, device) in &pools.joining {
            remembered.insert_device(name, device);
        }
        remembered
    }

    fn remember(&self, pools: &mut Pools) {
        let written = self.remember_in(MEMORY, &Daemon::to_remember(pools));
        let reason = written.err().map(|failure| failure.message);
        if let Some(reason) = reason.as_ref().filter(|_| pools.unsaved.is_none()) {
            tracing::warn!(
                reason,
                "the list of imported pools could not be written; the next start imports older ones"
            );
        }
        pools.unsaved = reason;
    }

    /// Tries again to write what could not be written to the state directory. Returns what is still not saved, with the
    /// way out.
    pub(crate) fn save_again(&self) -> Vec<String> {
        let mut pools = self.pools.lock();
        if pools.unsaved.is_some() {
            self.remember(&mut pools);
        }
        let of_imported = pools.unsaved.as_ref().map(|reason| {
            format!(
                "the list of imported pools is not saved, and the next start of the daemon imports older ones: \
                 {reason}. Free space there, then run 'strongroom pool list', which saves it; after a start: \
                 strongroom pool import"
            )
        });
        drop(pools);
        of_imported
            .into_iter()
            .chain(self.exported_pools.save_again())
            .collect()
    }

    /// Reads a file of the state directory. `again` says how to make its contents again.
    pub(crate) fn recall_from<T: DeserializeOwned + Default>(&self, name: &str, again: &str) -> T {
        self.state.recall(name, again)
    }

    /// The state directory.
    pub(crate) fn state_dir(&self) -> &Arc<StateDir> {
        &self.state
    }

    /// Writes a file of the state directory.
    pub(crate) fn remember_in(&self, name: &str, what: &impl Serialize) -> Result<()> {
        self.state.remember(name, what)
    }
}

pub(crate) fn already_imported(name: &str) -> Failure {
    Failure::new(
        FailureKind::Exists,
        format!("a pool '{name}' is imported already; give the other one a new name"),
    )
}

/// The failure of making a pool whose name another one has.
pub(crate) fn name_is_taken(name: &str) -> Failure {
    Failure::new(
        FailureKind::Exists,
        format!("there is a pool '{name}' already; choose another name"),
    )
}
