//! Stores the persistent reservations of iSCSI targets: those of a volume in its pool, those of other devices in the
//! state directory.

use std::io;
use std::sync::{Arc, Weak};

use block::LossNotice;
use dataset::{SyncMode, WriteCache};
use iscsi::ReservationStore;

use crate::state::datasets::properties;
use crate::state::memory::StateDir;
use crate::state::pools::active_pool::ActivePool;

/// The property of a volume with the reservations. No user can set a property with such a name.
const PROPERTY: &str = "@scsi";

/// Keeps the reservations of a volume in its pool, so that they move with the pool.
pub(crate) struct PoolKeeper {
    pool: Weak<ActivePool>,
    /// The volume.
    id: u64,
    losses: Arc<LossNotice>,
}

impl PoolKeeper {
    pub(crate) fn new(pool: &Arc<ActivePool>, id: u64) -> PoolKeeper {
        let losses = pool.losses.of(id);
        let pool = Arc::downgrade(pool);
        PoolKeeper { pool, id, losses }
    }

    fn pool(&self) -> io::Result<Arc<ActivePool>> {
        let gone = || io::Error::other("the pool is not imported");
        self.pool.upgrade().ok_or_else(gone)
    }
}

impl std::fmt::Debug for PoolKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InPool").field("id", &self.id).finish()
    }
}

impl ReservationStore for PoolKeeper {
    fn load(&self) -> io::Result<Option<String>> {
        let entry = self.pool()?.pool.entry(self.id);
        let entry = entry.map_err(io::Error::other)?;
        Ok(entry.props.get(PROPERTY).cloned())
    }

    fn save(&self, text: Option<&str>) -> io::Result<()> {
        let pool = &self.pool()?.pool;
        let saved = pool.keep_prop(self.id, PROPERTY, text.map(str::to_owned));
        saved.map_err(io::Error::other)
    }

    fn room(&self) -> Option<u64> {
        let active = self.pool.upgrade()?;
        active.pool.available_to(self.id).ok()
    }

    fn has_write_cache(&self) -> bool {
        let settings = || {
            let active = self.pool.upgrade()?;
            let entry = active.pool.entry(self.id).ok()?;
            properties::settings(&active.pool, &entry).ok()
        };
        settings().is_none_or(|it| it.write_cache != WriteCache::Off && it.sync != SyncMode::Always)
    }

    fn tell_of_loss(&self, initiator: &str) -> bool {
        self.losses.tell(initiator)
    }
}

/// Keeps the reservations of a file or disk in the state directory.
pub(crate) struct StateKeeper {
    dir: Arc<StateDir>,
    name: String,
    losses: Arc<LossNotice>,
}

impl StateKeeper {
    /// `unit` is the number of the unit.
    pub(crate) fn new(dir: &Arc<StateDir>, unit: u64, losses: Arc<LossNotice>) -> StateKeeper {
        StateKeeper {
            dir: Arc::clone(dir),
            name: format!("reservations-{unit:016x}.json"),
            losses,
        }
    }
}

impl std::fmt::Debug for StateKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InState").field(&self.name).finish()
    }
}

impl ReservationStore for StateKeeper {
    fn load(&self) -> io::Result<Option<String>> {
        self.dir.read(&self.name)
    }

    fn save(&self, text: Option<&str>) -> io::Result<()> {
        match text {
            None => self.dir.remove(&self.name),
            Some(text) => {
                let saved = self.dir.remember(&self.name, &text);
                saved.map_err(|failure| io::Error::other(failure.message))
            }
        }
    }

    /// A file or disk has no limit that the daemon knows.
    fn room(&self) -> Option<u64> {
        None
    }

    fn has_write_cache(&self) -> bool {
        true
    }

    fn tell_of_loss(&self, initiator: &str) -> bool {
        self.losses.tell(initiator)
    }
}
