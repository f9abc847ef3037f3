//! The state that a pool and its open datasets share: storage, the dataset table, and the open transaction group.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};

use crate::engine::datasets::table::DatasetTable;
use crate::engine::dedup::Dedup;
use crate::engine::devices::heart::Heart;
use crate::engine::state_lock::StateLock;
use crate::engine::suspension::Suspension;
use crate::error::{Error, Result, SuspensionEnd};
use crate::format::records::pointer::RecordPtr;
use crate::storage::core::Core;

/// The part of a pool that its open datasets use.
pub(crate) struct PoolContext {
    pub(crate) core: Arc<Core>,
    pub(crate) state: StateLock,
    pub(crate) read_only: bool,
    /// Notified when an open dataset is closed.
    pub(crate) closed: Condvar,
    pub(crate) gate: RwLock<TxgGate>,
    /// True if the open transaction group has changes.
    pub(crate) dirty: AtomicBool,
    /// The ids of the open datasets that the next commit visits: datasets that changed, and datasets with a log.
    pub(crate) to_visit: Mutex<BTreeSet<u64>>,
    /// The records that several pointers share.
    pub(crate) dedup: Dedup,
    pub(crate) suspension: Suspension,
    pub(crate) heart: Heart,
    /// True if a commit is collecting its changes.
    pub(crate) is_collecting: AtomicBool,
    /// Held shared by a thread that writes and flushes without a commit. Held exclusively while the pool retries failed
    /// devices: a flush that succeeds then proves nothing about writes before the failure.
    pub(crate) flushing: RwLock<()>,
    /// Devices that failed, and that the configuration does not list as failed yet.
    pub(crate) faults: Mutex<Faults>,
}

impl Deref for PoolContext {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

/// The open transaction group. A thread that makes a change holds the gate; a commit closes it.
pub(crate) struct TxgGate {
    pub(crate) txg: u64,
}

/// The right to change something in the open transaction group. The group cannot close while a `Hold` exists. So
/// hold it for a short time, and do not wait for a device meanwhile.
pub struct TxgHold<'a> {
    gate: RwLockReadGuard<'a, TxgGate>,
    context: &'a PoolContext,
}

impl TxgHold<'_> {
    /// The open transaction group.
    pub fn txg(&self) -> u64 {
        self.gate.txg
    }

    /// Marks the group as changed, so that it is committed.
    pub(crate) fn mark_dirty(&self) {
        self.context.dirty.store(true, Ordering::Release);
    }
}

/// Devices that failed.
#[derive(Default)]
pub(crate) struct Faults {
    /// Devices that the configuration does not list as failed.
    pub(crate) new: Vec<store::DeviceFault>,
    /// True if a commit that is not durable yet lists other failed devices.
    pub(crate) are_entering: bool,
}

impl PoolContext {
    pub(crate) fn new(core: Core, mut state: DatasetTable, read_only: bool) -> PoolContext {
        state.start_clock(&core.env);
        PoolContext {
            core: Arc::new(core),
            read_only,
            closed: Condvar::new(),
            // The group of the state is durable already.
            gate: RwLock::new(TxgGate { txg: state.txg + 1 }),
            dirty: AtomicBool::new(false),
            to_visit: Mutex::default(),
            dedup: Dedup::new(&state.root),
            suspension: Suspension::default(),
            heart: Heart::default(),
            is_collecting: AtomicBool::new(false),
            flushing: RwLock::default(),
            faults: Mutex::default(),
            state: StateLock::new(state),
        }
    }

    /// Joins the open transaction group, to change something in it.
    pub(crate) fn enter(&self) -> Result<TxgHold<'_>> {
        self.check_writable()?;
        Ok(TxgHold {
            // A suspension after the check does no harm: the commit of this group checks again.
            gate: self.gate.read(),
            context: self,
        })
    }

    /// Suspends the pool, and remembers the first failure. The pool refuses changes until
    /// [`Pool::resume`](crate::Pool::resume).
    pub(crate) fn suspend(&self, error: Error) -> Error {
        self.end_changes(error, SuspensionEnd::Cleared)
    }

    /// Suspends the pool until the next import: the state in memory differs from what should have become durable.
    pub(crate) fn suspend_for_good(&self, error: Error) -> Error {
        self.end_changes(error, SuspensionEnd::Imported)
    }

    fn end_changes(&self, error: Error, until: SuspensionEnd) -> Error {
        // If another host has a device, failures that follow from it suspend the pool until the next import too.
        let until = match self.disk.store.check_lost() {
            Ok(()) => until,
            Err(_) => SuspensionEnd::Imported,
        };
        if self.suspension.begin(&error, until) {
            // The committing thread may still hold this lock.
            let name = self.state.try_read().map(|state| state.pool_name());
            tracing::error!(%error, pool = name, "the pool is suspended; {until}");
        }
        error
    }

    /// Fails if a device refused a write. The write is kept in memory, and no more writes may be added.
    pub(crate) fn check_stall(&self) -> Result<()> {
        match self.disk.store.stall() {
            Some(error) => Err(self.suspend(error.into())),
            None => Ok(()),
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.check_lease()?;
        self.suspension.check()
    }

    /// Suspends the pool until the next import if its last heartbeat is too old, or if another host has reserved a
    /// device: another host may use the pool now.
    pub(crate) fn check_lease(&self) -> Result<()> {
        if let Err(error) = self.disk.store.check_lost() {
            return Err(self.suspend_for_good(error.into()));
        }
        match self.heart.lapsed(|| self.env.lease_clock()) {
            None => Ok(()),
            Some(since) => {
                let name = self.state.try_read().map(|state| state.pool_name());
                let reason = format!(
                    "no heartbeat could be written for {} s, so that another host may use it now; export \
                     it with -f and import it again",
                    since.as_secs()
                );
                Err(self.suspend_for_good(Error::refused(name.unwrap_or_default(), reason)))
            }
        }
    }

    /// Returns whether a resilver runs.
    pub(crate) fn is_resilvering(&self) -> bool {
        self.state.read().config.resilver.is_running()
    }

    /// Frees records of the open transaction group that will never be in a tree.
    pub(crate) fn forget_open(&self, records: &[RecordPtr]) {
        let gate = self.gate.read();
        for ptr in records {
            // Not at once: the open group may have allocated them, and its commit counts that first.
            self.free_later(gate.txg, &ptr.place);
        }
        self.dirty.store(true, Ordering::Release);
    }
}
