//! The table of open datasets and snapshots. A dataset is open once at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::gate::CommitEngine;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;

impl CommitEngine {
    /// Opens a dataset or snapshot. A dataset is open once at a time.
    pub(crate) fn open_dataset(&self, id: u64) -> Result<Arc<OpenDataset>> {
        // A commit in between would leave the roots behind.
        let _committing = self.lock_commits();
        let state = self.state.read();
        let entry = state.entry(id)?;
        let writable = !entry.is_snapshot() && !self.read_only;
        let mut open = self.open.lock();
        open.retain(|_, dataset| dataset.strong_count() > 0);
        if let Some(dataset) = open.get(&id).and_then(Weak::upgrade) {
            if entry.is_snapshot() {
                return Ok(dataset);
            }
            return Err(Error::Busy {
                name: state.name_of(entry),
            });
        }
        let dataset = Arc::new(OpenDataset::new(Arc::clone(&self.context), entry, writable));
        open.insert(id, Arc::downgrade(&dataset));
        Ok(dataset)
    }

    /// Waits until none of these datasets is open, up to a time limit. True if none is open.
    pub(crate) fn wait_until_closed(&self, ids: &[u64], patience: Duration) -> bool {
        /// The longest wait. It is short because not every release of a dataset wakes the waiting thread.
        const SLICE: Duration = Duration::from_millis(20);
        let mut open = self.open.lock();
        let mut left = patience;
        loop {
            let is_open = |id| {
                let found: Option<&Weak<OpenDataset>> = open.get(id);
                found.is_some_and(|weak| weak.strong_count() > 0)
            };
            if !ids.iter().any(is_open) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            left = left.saturating_sub(SLICE);
            self.closed.wait_for(&mut open, SLICE);
        }
    }

    /// The datasets and snapshots that are open.
    pub(crate) fn open_datasets(&self) -> Vec<Arc<OpenDataset>> {
        let open = self.open.lock();
        open.values().filter_map(Weak::upgrade).collect()
    }

    /// Fails if one of these datasets and snapshots is open.
    pub(crate) fn check_closed(&self, state: &DatasetTable, entries: &[Arc<Entry>]) -> Result<()> {
        let open = self.open.lock();
        let busy = entries.iter().find(|entry| {
            open.get(&entry.id)
                .is_some_and(|weak| weak.strong_count() > 0)
        });
        match busy {
            None => Ok(()),
            Some(entry) => Err(Error::Busy {
                name: state.name_of(entry),
            }),
        }
    }
}
