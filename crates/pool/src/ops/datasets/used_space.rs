//! The division of space among a dataset, its snapshots and its origin, and the space that destroying some of them frees.
//!
//! Counters are enough for most answers. A record that the snapshots of a run have and the entry after them does not
//! have was new in one of these snapshots (`DatasetTable::own_bytes`). So destroying the run frees the sum of the new
//! bytes of the run and of the entry after it, less what that entry has and the entry before the run does not have.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::frees::dead_sums::{DeadSumCache, DeadlistQuestion, UniqueBytes};
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::ops::datasets::destroy::{Reach, with_due};
use crate::ops::pool::Pool;

/// Snapshots to destroy that follow each other in a line.
struct SnapshotRun {
    /// The entry after them.
    after: u64,
    /// The snapshot before them.
    before: Option<u64>,
    /// The bytes that each of these snapshots and the entry after them have, and no earlier one, in all.
    new: u64,
    /// The bytes that the entry after them refers to.
    referenced: u64,
}

/// The runs of these snapshots of a dataset that stays.
fn runs(state: &DatasetTable, head: &Arc<Entry>, doomed: &BTreeSet<u64>) -> Vec<SnapshotRun> {
    let mut line = vec![Arc::clone(head)];
    line.extend(state.snapshots(head));
    let stretches = line.chunk_by(|_, older| doomed.contains(&older.id));
    let run = |entries: &[Arc<Entry>]| {
        let [after, .., oldest] = entries else {
            return None;
        };
        let new = entries.iter().map(|entry| state.own_bytes(entry));
        Some(SnapshotRun {
            after: after.id,
            before: state.before(oldest).map(|before| before.id),
            new: new.fold(0, u64::saturating_add),
            referenced: after.referenced,
        })
    };
    stretches.filter_map(run).collect()
}

impl Pool {
    /// The bytes that [`Pool::destroy_dataset`] would free, as `used` counts them: equal records that are stored once
    /// count as often as they are written. Commits can happen meanwhile.
    ///
    /// # Errors
    /// As [`Pool::doomed`]; [`Error::Damaged`](crate::Error::Damaged) if a deadlist cannot be read.
    pub fn freed_by_destroying(&self, name: &str, reach: impl Into<Reach>) -> Result<u64> {
        let (mut bytes, mut all) = (0_u64, Vec::new());
        {
            let state = self.engine.state.read();
            let doomed = with_due(&state, name, reach.into())?;
            let ids: BTreeSet<u64> = doomed.iter().map(|entry| entry.id).collect();
            let mut heads = BTreeSet::new();
            for entry in &doomed {
                match entry.is_snapshot() {
                    false => bytes = bytes.saturating_add(entry.used),
                    true => drop(heads.insert(entry.parent)),
                }
            }
            for head in heads.difference(&ids) {
                all.extend(runs(&state, state.entry(*head)?, &ids));
            }
        }
        for run in all {
            let stays = match run.before {
                None => run.referenced,
                Some(before) => self.written_since_id(run.after, before)?.unwrap_or(run.new),
            };
            bytes = bytes.saturating_add(run.new.saturating_sub(stays));
        }
        Ok(bytes)
    }

    /// The bytes that destroying a dataset frees after its snapshots were destroyed: its data, without what its origin
    /// has.
    pub(crate) fn used_by_head(&self, state: &DatasetTable, head: &Arc<Entry>) -> Result<u64> {
        if head.origin == 0 {
            return Ok(head.referenced.min(head.used));
        }
        if head.prev_snap == 0 {
            return Ok(head.used);
        }
        let (disk, sums) = (&self.engine.disk, &self.engine.dead_sums);
        let mut known = DeadSumCache::new(DeadlistQuestion::Since(head.origin));
        let entries = of_clone(state, head);
        if !known.read(disk, sums, &entries, 0)? {
            known.read(disk, sums, &entries, usize::MAX)?;
            sums.keep(state, &known);
        }
        let written = UniqueBytes::single(head, &state.line(head), (head.origin, &known));
        let written = written.get(&head.origin).copied();
        Ok(written.unwrap_or(head.used).min(head.used))
    }

    /// Reads the deadlists that [`Pool::used_by_head`] needs for a dataset and those below it, in pieces, so that commits
    /// do not wait for all of them.
    pub(crate) fn read_deadlists_of_clones(&self, id: u64) -> Result<()> {
        let clones = {
            let state = self.engine.state.read();
            let mut heads = state.subtree(id);
            heads.retain(|head| head.origin != 0 && head.prev_snap != 0);
            heads
        };
        for clone in clones {
            let entries = |state: &DatasetTable| {
                Ok(state
                    .get(clone.id)
                    .map_or(Vec::new(), |head| of_clone(state, head)))
            };
            self.with_deadlists(
                DeadlistQuestion::Since(clone.origin),
                entries,
                |_, _| Ok(()),
            )?;
        }
        Ok(())
    }
}

/// A clone and its own snapshots, the newest first.
fn of_clone(state: &DatasetTable, head: &Arc<Entry>) -> Vec<Arc<Entry>> {
    let mut entries = vec![Arc::clone(head)];
    entries.extend(state.snapshots(head));
    entries
}
