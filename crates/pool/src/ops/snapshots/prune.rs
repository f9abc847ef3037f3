//! Snapshots by a schedule: which datasets have one, and destroying the snapshots that it no longer keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_internal};
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::ops::pool::Pool;
use crate::ops::snapshots::holds;
use crate::ops::snapshots::snapshot;

/// A dataset with the value of a property that it sets or inherits.
#[derive(Clone, Debug)]
pub struct DatasetWith {
    /// The whole name of the dataset.
    pub name: String,
    /// The entry of the dataset.
    pub entry: Arc<Entry>,
    /// The value.
    pub value: String,
}

impl Pool {
    /// The datasets that set or inherit a property. No device is read.
    ///
    /// # Errors
    /// As [`Pool::top`].
    pub fn datasets_with(&self, property: &str) -> Result<Vec<DatasetWith>> {
        let state = self.engine.state.read();
        let mut values: BTreeMap<u64, String> = BTreeMap::new();
        let mut found = Vec::new();
        // Parents come first.
        for entry in state.subtree(state.top()?.id) {
            let own = entry.props.get(property);
            let Some(value) = own.or_else(|| values.get(&entry.parent)).cloned() else {
                continue;
            };
            values.insert(entry.id, value.clone());
            let name = state.name_of(&entry);
            found.push(DatasetWith { name, entry, value });
        }
        Ok(found)
    }

    /// The datasets that set a property themselves, for a property that is not inherited. No device is read.
    ///
    /// # Errors
    /// As [`Pool::top`].
    pub fn datasets_that_set(&self, property: &str) -> Result<Vec<DatasetWith>> {
        let state = self.engine.state.read();
        let own = |entry: Arc<Entry>| {
            let value = entry.props.get(property)?.clone();
            let name = state.name_of(&entry);
            Some(DatasetWith { name, entry, value })
        };
        let all = state.subtree(state.top()?.id).into_iter();
        Ok(all.filter_map(own).collect())
    }

    /// The snapshots in this list that nothing keeps: no hold, no clone and no user.
    pub fn prunable(&self, snapshots: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
        let state = self.engine.state.read();
        self.unkept(&state, snapshots)
    }

    fn unkept(&self, state: &DatasetTable, snapshots: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
        // Clones that are being received count too.
        let heads = state.all().filter(|entry| !entry.is_snapshot());
        let origins: BTreeSet<u64> = heads.map(|entry| entry.origin).collect();
        let now = snapshots.iter().filter_map(|entry| state.get(entry.id));
        let unkept = now.filter(|entry| {
            entry.is_snapshot()
                && !origins.contains(&entry.id)
                && holds::check(state, entry).is_ok()
                && self
                    .engine
                    .check_closed(state, std::slice::from_ref(entry))
                    .is_ok()
        });
        unkept.cloned().collect()
    }

    /// Destroys those of these snapshots that nothing keeps, in one commit, and returns their names. It reads and
    /// writes what they free, however many snapshots there are.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if a list of freed records cannot be read; as [`Pool::commit`].
    pub fn prune(&self, snapshots: &[Arc<Entry>], origin: &Origin) -> Result<Vec<String>> {
        if self.prunable(snapshots).is_empty() {
            return Ok(Vec::new());
        }
        self.engine.commit_with(|commit, state| {
            let doomed = self.unkept(state, snapshots);
            log(commit, state, origin, None);
            let mut names = Vec::new();
            for entry in &doomed {
                names.push(state.name_of(entry));
                log_internal(commit, state, origin, "destroy", entry);
                snapshot::destroy(commit, state, entry.id)?;
            }
            Ok(names)
        })
    }
}
