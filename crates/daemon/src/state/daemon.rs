//! The daemon, with all tables that it owns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cipher::SystemRandom;
use dataset::{Engine, EngineOptions};
use nbd::RemoteExport;
use objects::{ObjectDevice, StorePatience};
use pool::Entry;

use crate::failure::Result;
use crate::host::process::system::System;
use crate::host::process::wakeup::Wakeup;
use crate::state::callers::budget::Budgets;
use crate::state::callers::command_connections::CommandConnections;
use crate::state::callers::connections::Connections;
use crate::state::callers::tokens::Tokens;
use crate::state::devices::mapping_table::Mappings;
use crate::state::devices::remote_devices::RemoteDevices;
use crate::state::devices::store_patience::{PATIENCE_AT_STOP, patience_at_stop};
use crate::state::exports::ha_targets::HaTable;
use crate::state::exports::registry::ExportTable;
use crate::state::front_end::FrontEnd;
use crate::state::keys::acceptances::Acceptances;
use crate::state::memory::StateDir;
use crate::state::mounts::mount_records::MountRecords;
use crate::state::mounts::mounted_dirs::MountedDirs;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::events::EventLog;
use crate::state::pools::last_end::LastRun;
use crate::state::pools::late_imports::LateImports;
use crate::state::pools::pool_table::PoolTable;
use crate::state::replication::table::ReplicationTable;
use crate::state::zones::zone::Zones;

pub(crate) struct Daemon {
    pub(crate) engine: Arc<Engine>,
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) socket: PathBuf,
    state: Arc<StateDir>,
    /// The places of keys that may be read.
    pub(crate) accepted: Arc<Acceptances>,
    /// The tokens of callers that cannot connect as their user.
    pub(crate) tokens: Tokens,
    /// The pools that are imported, and those that the next start imports.
    pub(crate) pool_table: PoolTable,
    /// Jobs that copy datasets.
    pub(crate) replications: ReplicationTable,
    /// Connections of commands that send or receive.
    pub(crate) transfers: Connections,
    /// Connections at all sockets.
    pub(crate) guests: Arc<CommandConnections>,
    /// Work for users other than root.
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) events: Arc<EventLog>,
    /// The directories of the mounts of all pools.
    pub(crate) mounted_dirs: Arc<MountedDirs>,
    pub(crate) zones: Zones,
    pub(crate) exported: ExportTable,
    pub(crate) served: HaTable,
    pub(crate) mappings: Mappings,
    /// Exports of other servers that are in use.
    pub(crate) remote_exports: Arc<RemoteDevices<RemoteExport>>,
    /// Places in object stores that are in use.
    pub(crate) object_devices: Arc<RemoteDevices<ObjectDevice>>,
    /// The time for which all of them wait for a store that does not answer.
    pub(crate) store_patience: Arc<StorePatience>,
    /// The same while the daemon ends.
    pub(crate) patience_at_stop: Duration,
    /// Woken when an outage of a store begins or ends.
    pub(crate) store_changes: Arc<Wakeup>,
    /// The pools whose import is tried again until their stores answer.
    pub(crate) late_imports: LateImports,
    pub(crate) front_ends: &'static [&'static dyn FrontEnd<Daemon>],
    /// The record of how the last daemon with this state directory ended.
    pub(crate) last_run: LastRun,
    /// The mounts of this process, for the start after a crash.
    pub(crate) mount_records: MountRecords,
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
            last_run: LastRun::new(&state),
            pool_table: PoolTable::new(&state),
            replications: ReplicationTable::new(&state),
            mappings: Mappings::new(&state),
            exported: ExportTable::new(&state),
            zones: Zones::new(&state),
            state,
            transfers: Connections::new(usize::MAX),
            guests: Arc::new(CommandConnections::new()),
            budgets: Arc::default(),
            events: Arc::default(),
            mounted_dirs: Arc::default(),
            served: HaTable::default(),
            remote_exports: Arc::default(),
            object_devices: Arc::default(),
            store_patience: Arc::default(),
            patience_at_stop: patience_at_stop().unwrap_or(PATIENCE_AT_STOP),
            store_changes: Arc::default(),
            late_imports: LateImports::default(),
            front_ends,
            mount_records: MountRecords::new(state_dir),
        })
    }

    /// The imported pools, by name.
    pub(crate) fn pools(&self) -> Vec<Arc<ActivePool>> {
        self.pool_table.all()
    }

    /// An imported pool.
    pub(crate) fn pool(&self, name: &str) -> Result<Arc<ActivePool>> {
        self.pool_table.get(name)
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

    /// The state directory.
    pub(crate) fn state_dir(&self) -> &Arc<StateDir> {
        &self.state
    }
}
