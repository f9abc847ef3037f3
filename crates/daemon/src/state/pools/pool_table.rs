//! The table of imported pools, and of the pools that the next start imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::api::FailureKind;
use store::NewMember;

use crate::failure::{Failure, Result};
use crate::state::memory::{KnownDevice, KnownPool, RememberedPools, StateDir};
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::exported_pools::ExportedPools;

/// The file in the state directory that remembers imported pools.
const MEMORY: &str = "pools.json";

/// The table of pools. Each change is written to the state directory at once, under the lock of the table.
pub(crate) struct PoolTable {
    state: Arc<StateDir>,
    /// The places of devices of exported pools.
    pub(crate) exported: ExportedPools,
    pools: Mutex<Pools>,
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

impl PoolTable {
    pub(crate) fn new(state: &Arc<StateDir>) -> PoolTable {
        PoolTable {
            state: Arc::clone(state),
            exported: ExportedPools::new(state),
            pools: Mutex::default(),
        }
    }

    /// The imported pools, by name.
    pub(crate) fn all(&self) -> Vec<Arc<ActivePool>> {
        self.pools.lock().active.values().cloned().collect()
    }

    /// An imported pool.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<ActivePool>> {
        self.pools.lock().active.get(name).cloned().ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                format!("there is no imported pool '{name}'; 'strongroom pool import' lists pools that can be imported"),
            )
        })
    }

    /// Sets whether the next start imports the pool with this guid. The next [`PoolTable::add`] applies it.
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

    /// Adds an imported pool. An import that the daemon began by itself counts only if no command has forgotten the pool, or
    /// imported it, since then.
    pub(crate) fn add(&self, active: Arc<ActivePool>, is_by_itself: bool) -> Result<()> {
        let name = active.pool.name();
        let mut pools = self.pools.lock();
        if pools.stopping {
            return Err(Failure::new(FailureKind::Busy, "the daemon is ending"));
        }
        if pools.active.contains_key(&name) {
            return Err(already_imported(&name));
        }
        let guid = active.pool.guid();
        if is_by_itself && !pools.absent.waits_for(&name, guid) {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("the pool '{name}' was forgotten while it was imported"),
            ));
        }
        pools.absent.remove(&name);
        // It may have another name now.
        pools
            .absent
            .pools
            .retain(|_, known| known.guid != Some(guid));
        pools.active.insert(name, active);
        self.remember(&mut pools);
        drop(pools);
        self.exported.remove(guid);
        Ok(())
    }

    /// Puts a newer state of a pool in the place of an older one. The caller has the lock of the older one.
    pub(crate) fn exchange(&self, newer: &Arc<ActivePool>) {
        let mut pools = self.pools.lock();
        pools.active.insert(newer.pool.name(), Arc::clone(newer));
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

    /// Returns whether the daemon is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.pools.lock().stopping
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
        let remembered: RememberedPools = self.state.recall(MEMORY, "strongroom pool import");
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

    pub(crate) fn remembered_devices(&self) -> Vec<PathBuf> {
        PoolTable::to_remember(&self.pools.lock()).paths()
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
        let written = self.state.remember(MEMORY, &PoolTable::to_remember(pools));
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
            .chain(self.exported.save_again())
            .collect()
    }
}

/// The failure of an import whose name an imported pool has.
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

#[cfg(test)]
mod tests {
    use block::MemoryDevice;

    use super::*;
    use crate::state::pools::pool_worker::tests::active_pool;

    #[test]
    fn an_import_of_the_daemon_counts_only_while_the_pool_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let device = Arc::new(MemoryDevice::new(64 << 20));
        let (_, active) = active_pool(dir.path(), device);
        let table = PoolTable::new(&Arc::new(StateDir::new(dir.path())));
        table.add(Arc::clone(&active), false).unwrap();
        // As at the end of a daemon: the next start imports it.
        table.set_aside(&active);
        table.add(Arc::clone(&active), true).unwrap();
        table.set_aside(&active);
        assert!(table.remove("tank"), "it was remembered");
        let refused = table.add(Arc::clone(&active), true).unwrap_err();
        assert_eq!(refused.kind, FailureKind::NotFound);
        assert!(table.all().is_empty());
        active.stop_worker();
    }
}
