//! The differences between two states of a dataset. Shared parts are not read.

use std::sync::Arc;

use crate::engine::datasets::open_dataset::OpenDataset;
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::RecordPtr;
use crate::ops::pool::Pool;
use crate::storage::array::diff::{SlotDifference, diff};

impl Pool {
    /// Opens the state of a dataset or snapshot in this entry, for reading. If the dataset changes meanwhile, old
    /// records and nodes may be freed. Then a read fails, and the dataset has a newer entry.
    ///
    /// # Errors
    /// As [`Pool::open_dataset`], for a snapshot.
    pub fn state_of(&self, entry: &Entry) -> Result<Arc<OpenDataset>> {
        match entry.is_snapshot() {
            true => self.open_dataset(entry.id),
            false => Ok(Arc::new(OpenDataset::new(
                Arc::clone(&self.engine.context),
                entry,
                false,
            ))),
        }
    }

    /// Returns whether a snapshot is in the line before another entry.
    pub fn is_earlier(&self, from: &Entry, to: &Entry) -> bool {
        let state = self.engine.state.read();
        state.line(to).iter().any(|entry| entry.id == from.id)
    }

    /// Visits each slot of an array where only one of two states has a record.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Inconsistent`](crate::Error::Inconsistent) if a
    /// node cannot be read; [`Error::Store`](crate::Error::Store) if a device fails.
    pub fn records_besides(
        &self,
        has_not: &Entry,
        has: &Entry,
        array: ArrayKind,
        each: &mut dyn FnMut(u64, &RecordPtr),
    ) -> Result<()> {
        let roots = [has_not, has].map(|entry| &entry.roots[array as usize]);
        let disk = &self.engine.disk;
        diff(disk, roots[0], roots[1], 0, &mut |change| {
            if let SlotDifference::Record(slot, ptr) = change {
                each(slot, ptr);
            }
            Ok(())
        })
    }
}
