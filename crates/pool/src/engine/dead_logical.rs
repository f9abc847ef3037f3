//! Caches the sum of the bytes before compression in each deadlist.
//!
//! The sublists have the sums. The deadlist of a snapshot changes only when a neighbouring snapshot is destroyed. So
//! another query reads only the changed deadlists.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::engine::deadlist;
use crate::engine::table::DatasetTable;
use crate::error::Result;
use crate::format::entry::Entry;
use crate::format::pointer::RecordPtr;
use crate::storage::reader::PoolReader;

/// The root of a deadlist, and its sum.
type Sum = (RecordPtr, Option<u64>);

/// The sums of deadlists, by the ids of their datasets and snapshots.
#[derive(Default)]
pub(crate) struct DeadLogical(Mutex<BTreeMap<u64, Sum>>);

impl DeadLogical {
    /// The bytes before compression of the records in the deadlist of an entry; `None` if they were not counted.
    fn of(&self, disk: &PoolReader, entry: &Entry) -> Result<Option<u64>> {
        if entry.deadlist.is_empty() {
            return Ok(Some(0));
        }
        if let Some((root, sum)) = self.0.lock().get(&entry.id)
            && *root == entry.deadlist
        {
            return Ok(*sum);
        }
        let mut sum = Some(0_u64);
        for (_, sublist) in deadlist::sublists(disk, &entry.deadlist)? {
            let more = sum.zip(sublist.logical());
            sum = more.map(|(sum, more)| sum.saturating_add(more));
        }
        self.0.lock().insert(entry.id, (entry.deadlist, sum));
        Ok(sum)
    }

    /// The bytes before compression that an entry has and no earlier snapshot of its line has.
    pub(crate) fn own(
        &self,
        disk: &PoolReader,
        state: &DatasetTable,
        entry: &Entry,
    ) -> Result<Option<u64>> {
        let Some(before) = state.before(entry) else {
            return Ok(Some(entry.logical));
        };
        let dead = self.of(disk, entry)?;
        Ok(dead.map(|dead| {
            entry
                .logical
                .saturating_sub(before.logical.saturating_sub(dead))
        }))
    }

    /// Forgets the sums of destroyed datasets and snapshots.
    pub(crate) fn keep(&self, state: &DatasetTable) {
        self.0.lock().retain(|id, _| state.get(*id).is_some());
    }
}
