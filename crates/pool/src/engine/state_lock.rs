//! The lock of the state of a pool, and what can be seen of the state while it is held.
//!
//! A commit may read devices while it holds the lock, and a device may not answer for long. The name and the configuration
//! of the pool can be read all the same: reports and the lists of pools need them.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::engine::datasets::table::DatasetTable;
use crate::format::superblock::config::Config;

/// The part of the state that can be read at any time, as of the last change of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VisibleState {
    /// The name of the pool.
    pub(crate) name: String,
    /// The configuration.
    pub(crate) config: Config,
}

impl VisibleState {
    fn of(state: &DatasetTable) -> VisibleState {
        VisibleState {
            name: state.pool_name(),
            config: state.config.clone(),
        }
    }
}

/// The state of a pool behind a lock.
pub(crate) struct StateLock {
    lock: RwLock<DatasetTable>,
    visible: RwLock<Arc<VisibleState>>,
}

impl StateLock {
    pub(crate) fn new(state: DatasetTable) -> StateLock {
        StateLock {
            visible: RwLock::new(Arc::new(VisibleState::of(&state))),
            lock: RwLock::new(state),
        }
    }

    /// Locks the state for reading. A commit may hold it as long as a device does not answer.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, DatasetTable> {
        self.lock.read()
    }

    /// Locks the state for reading, unless it is locked for a change.
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, DatasetTable>> {
        self.lock.try_read()
    }

    pub(crate) fn write(&self) -> StateChange<'_> {
        StateChange {
            state: self.lock.write(),
            visible: &self.visible,
        }
    }

    /// The part that can be read without waiting.
    pub(crate) fn visible(&self) -> Arc<VisibleState> {
        Arc::clone(&self.visible.read())
    }
}

/// A change of the state. When it ends, others see it.
pub(crate) struct StateChange<'a> {
    state: RwLockWriteGuard<'a, DatasetTable>,
    visible: &'a RwLock<Arc<VisibleState>>,
}

impl Deref for StateChange<'_> {
    type Target = DatasetTable;

    fn deref(&self) -> &DatasetTable {
        &self.state
    }
}

impl DerefMut for StateChange<'_> {
    fn deref_mut(&mut self) -> &mut DatasetTable {
        &mut self.state
    }
}

impl Drop for StateChange<'_> {
    fn drop(&mut self) {
        let now = VisibleState::of(&self.state);
        let mut visible = self.visible.write();
        if **visible != now {
            *visible = Arc::new(now);
        }
    }
}
