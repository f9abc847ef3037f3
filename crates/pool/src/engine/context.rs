//! The state that a pool and its open datasets share: storage, the dataset table, and the open transaction group.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};

use crate::engine::dedup::Dedup;
use crate::engine::suspension::Suspension;
use crate::engine::table::DatasetTable;
use crate::error::{Error, Result, Until};
use crate::format::pointer::RecordPtr;
use crate::storage::core::Core;

/// The part of a pool that its open datasets use.
pub(crate) struct Context {
    pub(crate) core: Arc<Core>,
    pub(crate) state: RwLock<DatasetTable>,
    pub(crate) read_only: bool,
    /// An open dataset was closed.
    pub(crate) closed: Condvar,
    pub(crate) gate: RwLock<Gate>,
    /// Whether the open transaction group has changes.
    pub(crate) dirty: AtomicBool,
    /// Open datasets that the next commit visits, by id: those that changed, and those with a log.
    pub(crate) to_visit: Mutex<BTreeSet<u64>>,
    /// What is shared between pointers.
    pub(crate) dedup: Dedup,
    pub(crate) suspension: Suspension,
    /// A commit is putting together what it will write.
    pub(crate) is_collecting: AtomicBool,
    /// Held, side by side, by what writes and then flushes without a commit, and alone while devices that
    /// failed are tried again: a flush afterwards says nothing of what was written before.
    pub(crate) flushing: RwLock<()>,
    /// Devices that failed and are not in the configuration as such yet.
    pub(crate) faults: Mutex<Faults>,
}

impl Deref for Context {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

/// Changes pass here, one transaction group after the other.
pub(crate) struct Gate {
    pub(crate) txg: u64,
}

/// The right to change something in the open transaction group. While it is held the group cannot
/// close, so it must be short, and nothing that may wait for a device may happen meanwhile.
pub struct Hold<'a> {
    gate: RwLockReadGuard<'a, Gate>,
    context: &'a Context,
}

impl Hold<'_> {
    /// The open transaction group.
    pub fn txg(&self) -> u64 {
        self.gate.txg
    }

    /// Says that there is something to commit.
    pub(crate) fn mark_dirty(&self) {
        self.context.dirty.store(true, Ordering::Release);
    }
}

/// Devices that failed.
#[derive(Default)]
pub(crate) struct Faults {
    /// The configuration does not know of these.
    pub(crate) new: Vec<store::Fault>,
    /// It knows of others, in a commit that is not durable yet.
    pub(crate) are_entering: bool,
}

impl Context {
    pub(crate) fn new(core: Core, state: DatasetTable, read_only: bool) -> Context {
        Context {
            core: Arc::new(core),
            read_only,
            closed: Condvar::new(),
            gate: RwLock::new(Gate { txg: state.txg + 1 }),
            dirty: AtomicBool::new(false),
            to_visit: Mutex::default(),
            dedup: Dedup::new(&state.root),
            suspension: Suspension::default(),
            is_collecting: AtomicBool::new(false),
            flushing: RwLock::default(),
            faults: Mutex::default(),
            state: RwLock::new(state),
        }
    }

    /// Joins the open transaction group, to change something in it.
    pub(crate) fn enter(&self) -> Result<Hold<'_>> {
        self.check_writable()?;
        Ok(Hold {
            gate: self.gate.read(),
            context: self,
        })
    }

    /// Remembers the first failure. Nothing changes any more until [`Pool::resume`](crate::Pool::resume).
    pub(crate) fn suspend(&self, error: Error) -> Error {
        self.end_changes(error, Until::Cleared)
    }

    /// Suspends the pool until the next import: the state in memory differs from what should have become durable.
    pub(crate) fn suspend_for_good(&self, error: Error) -> Error {
        self.end_changes(error, Until::Imported)
    }

    fn end_changes(&self, error: Error, until: Until) -> Error {
        if self.suspension.begin(&error, until) {
            // Who commits may have it locked still.
            let name = self.state.try_read().map(|state| state.root.name());
            tracing::error!(%error, pool = name, "the pool is suspended; {until}");
        }
        error
    }

    /// Fails if a device did not take a write, which is in memory then: no more may come to that.
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
        self.suspension.check()
    }

    /// Whether records are being copied to members that lack them.
    pub(crate) fn is_resilvering(&self) -> bool {
        self.state.read().config.resilver.is_running()
    }

    /// Frees records of the open transaction group that will never be in a tree.
    pub(crate) fn forget_open(&self, records: &[RecordPtr]) {
        let gate = self.gate.read();
        for ptr in records {
            self.free_later(gate.txg, &ptr.place);
        }
        self.dirty.store(true, Ordering::Release);
    }
}
