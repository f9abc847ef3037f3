//! The amount of data that is new in a dataset or snapshot since an earlier state.
//!
//! Since a snapshot, counters are enough: the bytes that the later state references, less those of the snapshot that it
//! still has. The deadlists between the two tell which bytes of the snapshot it no longer has. Since a bookmark, the
//! births in the trees are read.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use crate::engine::datasets::table::{DatasetTable, head_id};
use crate::engine::frees::dead_sums::{DeadSumCache, DeadlistQuestion, UniqueBytes, sum};
use crate::engine::frees::deadlist;
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::records::array_kind::ArrayKind;
use crate::ops::info::PIECE;
use crate::ops::pool::Pool;
use crate::storage::array::walk::{self, Visit};

/// The sublists of deadlists that are read while commits wait.
const SUBLISTS: usize = 256;

impl Pool {
    /// The bytes on disk that an entry has and an earlier snapshot of its line does not have. `snapshot` is a full
    /// name, or the part after the `@` for a snapshot of the same dataset. `None` if there is no such snapshot. Commits
    /// can happen meanwhile. The answer is for the state at the end.
    ///
    /// # Errors
    /// As [`Pool::entry`]; [`Error::Damaged`](crate::Error::Damaged) if a deadlist cannot be read.
    pub fn written_since(&self, id: u64, snapshot: &str) -> Result<Option<u64>> {
        let since = {
            let state = self.engine.state.read();
            earlier(&state, state.entry(id)?, snapshot)?.map(|since| since.id)
        };
        since.map_or(Ok(None), |since| self.written_since_id(id, since))
    }

    /// Returns the same as [`Pool::written_since`], for the snapshot with an id.
    pub(crate) fn written_since_id(&self, id: u64, asked: u64) -> Result<Option<u64>> {
        let sums = &self.engine.dead_sums;
        // Set on a second call for the same state. Then more calls are likely, and all snapshots of the line are
        // counted.
        let mut is_again = false;
        {
            let state = self.engine.state.read();
            let entry = state.entry(id)?;
            if asked == id {
                return Ok(Some(0));
            }
            if state.before(entry).is_some_and(|before| before.id == asked) {
                return Ok(Some(state.own_bytes(entry)));
            }
            let last = sums.since.lock().clone();
            if let Some(last) = last.filter(|last| (last.txg, last.id) == (state.txg, id)) {
                if let Some(written) = last.written.get(&asked) {
                    return Ok(Some(*written));
                }
                is_again = !last.is_single;
            }
        }
        // The entry, and its line to the snapshot or to its end. Empty if the snapshot is not in the line.
        let line = |state: &DatasetTable| -> Result<Vec<Arc<Entry>>> {
            let entry = state.entry(id)?;
            let mut all = vec![Arc::clone(entry)];
            all.extend(state.line(entry));
            match all.iter().position(|older| older.id == asked) {
                Some(at) if !is_again => all.truncate(at + 1),
                Some(_) => {}
                None => all.clear(),
            }
            Ok(all)
        };
        let newer = |state: &DatasetTable| {
            line(state).map(|mut all| {
                all.pop();
                all
            })
        };
        self.with_deadlists(DeadlistQuestion::Since(asked), newer, |state, known| {
            let all = line(state)?;
            let Some((entry, older)) = all.split_first() else {
                return Ok(None);
            };
            let counted = UniqueBytes::of(state.txg, entry, older, known);
            let written = counted.written.get(&asked).copied();
            *sums.since.lock() = Some(Arc::new(counted));
            Ok(written)
        })
    }

    /// The bytes before compression of a dataset, its snapshots and the datasets below it. For a snapshot these are the
    /// bytes that only it has. `None` if a part was not counted, because an older program wrote it. Commits can happen
    /// meanwhile. The answer is for the state at the end.
    ///
    /// # Errors
    /// As [`Pool::list`].
    pub fn logical_used(&self, id: u64) -> Result<Option<u64>> {
        let all = |state: &DatasetTable| -> Result<Vec<Arc<Entry>>> {
            let mut all = state.subtree(id);
            for at in 0..all.len() {
                all.extend(state.snapshots(&all[at]));
            }
            Ok(all)
        };
        if self.entry(id)?.is_snapshot() {
            return self.logical_of_snapshot(id);
        }
        self.with_deadlists(DeadlistQuestion::Logical, all, |state, known| {
            let listed = all(state)?;
            let own = listed.iter().map(|entry| known.own_logical(state, entry));
            Ok(sum(own))
        })
    }

    /// The bytes before compression that only this snapshot has: one sublist has their sum.
    fn logical_of_snapshot(&self, id: u64) -> Result<Option<u64>> {
        let engine = &self.engine;
        // While no commit happens, the space of a deadlist is not used again.
        let _committing = engine.lock_commits();
        let list = {
            let state = engine.state.read();
            state.entry(state.entry(id)?.next)?.deadlist
        };
        Ok(deadlist::sublist(&engine.disk, &list, id)?.logical())
    }

    /// Reads the deadlists of some entries until all deadlists of one state are known, and computes the answer. Commits
    /// wait for one piece of the reading at a time. Nothing else waits for it.
    pub(crate) fn with_deadlists<R>(
        &self,
        question: DeadlistQuestion,
        wanted: impl Fn(&DatasetTable) -> Result<Vec<Arc<Entry>>>,
        answer: impl FnOnce(&DatasetTable, &DeadSumCache) -> Result<R>,
    ) -> Result<R> {
        let (disk, sums) = (&self.engine.disk, &self.engine.dead_sums);
        let mut known = DeadSumCache::new(question);
        {
            let state = self.engine.state.read();
            if known.read(disk, sums, &wanted(&state)?, 0)? {
                return answer(&state, &known);
            }
        }
        loop {
            // While no commit happens, the space of a deadlist is not used again.
            let committing = self.engine.lock_commits();
            let entries = wanted(&self.engine.state.read())?;
            if known.read(disk, sums, &entries, SUBLISTS)? {
                let state = self.engine.state.read();
                sums.keep(&state, &known);
                return answer(&state, &known);
            }
            MutexGuard::unlock_fair(committing);
        }
    }

    /// Holds the sums of at most so many sublists in memory, for tests.
    #[doc(hidden)]
    pub fn limit_sums(&self, sublists: usize) {
        let max = &self.engine.dead_sums.max;
        max.store(sublists, Ordering::Relaxed);
    }

    /// Returns the same as [`Pool::written_since`], for a bookmark of the same dataset. It reads the nodes of what is
    /// new; commits can happen meanwhile.
    ///
    /// # Errors
    /// As [`Pool::each_record`].
    pub fn written_since_bookmark(&self, id: u64, mark: &str) -> Result<Option<u64>> {
        let since = {
            let state = self.engine.state.read();
            let entry = state.entry(id)?;
            let mark = state.entry(head_id(entry))?.bookmark(mark);
            let is_before = |txg: &u64| !entry.is_snapshot() || *txg <= entry.created_txg;
            mark.map(|mark| mark.created_txg).filter(is_before)
        };
        let Some(since) = since else { return Ok(None) };
        let mut bytes = 0;
        for array in ArrayKind::ALL {
            bytes += self.born_after(id, array, since)?;
        }
        Ok(Some(bytes))
    }

    /// Bytes on disk of the records and nodes of an array that were born after a transaction group.
    fn born_after(&self, id: u64, array: ArrayKind, txg: u64) -> Result<u64> {
        let (mut bytes, mut from) = (0_u64, 0);
        loop {
            let _committing = self.engine.lock_commits();
            let root = self.entry(id)?.roots[array as usize];
            let mut left = PIECE;
            let stopped = walk::visit(&self.engine.disk, &root, from, txg, &mut |visit| {
                let (Visit::Record(slot, ptr) | Visit::Node(slot, ptr, _)) = visit;
                if matches!(visit, Visit::Record(..)) {
                    if left == 0 {
                        return Ok(ControlFlow::Break(slot));
                    }
                    left -= 1;
                }
                bytes = bytes.saturating_add(ptr.place.allocated());
                Ok(ControlFlow::Continue(()))
            })?;
            match stopped {
                ControlFlow::Break(slot) => from = slot,
                ControlFlow::Continue(()) => return Ok(bytes),
            }
        }
    }
}

/// The snapshot with this name, whole or of the dataset of an entry.
fn earlier<'a>(
    state: &'a DatasetTable,
    entry: &Entry,
    name: &str,
) -> Result<Option<&'a Arc<Entry>>> {
    let whole = match name.contains('@') {
        true => name.to_owned(),
        false => format!("{}@{name}", state.name_of(state.entry(head_id(entry))?)),
    };
    Ok(state.find(&whole).ok())
}
