//! The sums of deadlists, kept in memory.
//!
//! The bytes in a deadlist, by snapshots, are stored only in its sublists. There can be thousands of sublists, and a
//! commit replaces few of them. So each sublist is read once, and again after it has changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::deadlist::Sublist;
use crate::engine::table::DatasetTable;
use crate::error::Result;
use crate::format::entry::Entry;
use crate::format::pointer::{Addr, RecordPtr};
use crate::storage::array::walk::{self, Visit};
use crate::storage::reader::PoolReader;

/// The sublists whose sums stay in memory: about 16 MiB.
const KEPT_MAX: usize = 1 << 18;

/// The sums of a sublist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The oldest snapshot that has the records.
    pub(crate) snapshot: u64,
    /// The bytes on disk.
    pub(crate) bytes: u64,
    /// The bytes before compression; `None` if they were not counted.
    pub(crate) logical: Option<u64>,
    /// The address of the sublist, and its birth.
    place: (Addr, u64),
}

/// The sums of a deadlist.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// The sums of the sublists, sorted by snapshots.
    parts: Vec<Part>,
    /// The root of the deadlist, if all of it was read.
    root: Option<RecordPtr>,
}

impl Sums {
    fn is_of(&self, entry: &Entry) -> bool {
        self.root == Some(entry.deadlist)
    }

    /// The sums of a deadlist, from the sums of an earlier state of it. Reads at most `left` sublists. The next call
    /// reads the rest.
    fn update(&self, disk: &PoolReader, root: &RecordPtr, left: &mut usize) -> Result<Sums> {
        let mut parts = Vec::new();
        let stopped = walk::visit(disk, root, 0, 0, &mut |visit| {
            let Visit::Record(snapshot, ptr) = visit else {
                return Ok(ControlFlow::Continue(()));
            };
            let place = (ptr.place.addr[0], ptr.place.birth());
            let known = self
                .parts
                .binary_search_by_key(&snapshot, |part| part.snapshot);
            let known = known.ok().map(|at| self.parts[at]);
            if let Some(part) = known.filter(|part| part.place == place) {
                parts.push(part);
                return Ok(ControlFlow::Continue(()));
            }
            if *left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            *left -= 1;
            let sublist = Sublist::decode(&disk.clear_record(ptr)?)?;
            parts.push(Part {
                snapshot,
                bytes: sublist.bytes(),
                logical: sublist.logical(),
                place,
            });
            Ok(ControlFlow::Continue(()))
        })?;
        let root = stopped.is_continue().then_some(*root);
        Ok(Sums { parts, root })
    }
}

/// The sums of some deadlists, by the ids of their datasets and snapshots.
#[derive(Default)]
pub(crate) struct Known(BTreeMap<u64, Arc<Sums>>);

impl Known {
    /// Reads the missing sublists of the deadlists of these entries, at most `left` of them. Returns whether all sums
    /// are known then.
    pub(crate) fn read(
        &mut self,
        disk: &PoolReader,
        kept: &DeadSums,
        entries: &[Arc<Entry>],
        mut left: usize,
    ) -> Result<bool> {
        for entry in entries.iter().filter(|entry| !entry.deadlist.is_empty()) {
            let sums = self.0.entry(entry.id).or_insert_with(|| kept.of(entry.id));
            if !sums.is_of(entry) {
                if left == 0 {
                    return Ok(false);
                }
                *sums = Arc::new(sums.update(disk, &entry.deadlist, &mut left)?);
                if sums.root.is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The sums of the deadlist of an entry. The deadlist must have been read.
    fn parts(&self, entry: &Entry) -> &[Part] {
        let sums = self.0.get(&entry.id).filter(|sums| sums.is_of(entry));
        debug_assert!(sums.is_some() || entry.deadlist.is_empty());
        sums.map_or(&[], |sums| &sums.parts)
    }

    /// The bytes before compression of the records in the deadlist of an entry whose oldest snapshot is `snapshot`;
    /// `None` if they were not counted.
    pub(crate) fn logical_of(&self, entry: &Entry, snapshot: u64) -> Option<u64> {
        let mut parts = self.parts(entry).iter();
        let part = parts.find(|part| part.snapshot == snapshot);
        part.map_or(Some(0), |part| part.logical)
    }

    /// The bytes before compression of an entry that no earlier snapshot of its line has; `None` if they were not
    /// counted.
    pub(crate) fn own_logical(&self, state: &DatasetTable, entry: &Entry) -> Option<u64> {
        let Some(before) = state.before(entry) else {
            return Some(entry.logical);
        };
        let mut dead: u64 = 0;
        for part in self.parts(entry) {
            dead = dead.saturating_add(part.logical?);
        }
        let shared = before.logical.saturating_sub(dead);
        Some(entry.logical.saturating_sub(shared))
    }
}

/// The bytes that an entry has and snapshots of its line do not have, in one state of the pool.
pub(crate) struct Since {
    /// The transaction group of the state.
    pub(crate) txg: u64,
    /// The id of the entry.
    pub(crate) id: u64,
    /// Bytes on disk, by the ids of the snapshots.
    pub(crate) written: BTreeMap<u64, u64>,
}

impl Since {
    /// Counts for an entry and the newest snapshots of its line. The deadlists of all but the last one must be known.
    pub(crate) fn of(txg: u64, entry: &Entry, line: &[Arc<Entry>], known: &Known) -> Since {
        let places: BTreeMap<u64, usize> = (line.iter().map(|older| older.id)).zip(0..).collect();
        // A record in the deadlist at index `from` counts for the snapshots from `from` to the oldest one that has it.
        let mut steps = vec![(0_u64, 0_u64); line.len() + 1];
        let newer = [entry].into_iter().chain(line.iter().map(Arc::as_ref));
        for (from, newer) in newer.take(line.len()).enumerate() {
            for part in known.parts(newer) {
                let last = places.get(&part.snapshot).copied();
                let behind = last.map_or(line.len(), |last| last + 1);
                if from < behind {
                    steps[from].0 = steps[from].0.saturating_add(part.bytes);
                    steps[behind].1 = steps[behind].1.saturating_add(part.bytes);
                }
            }
        }
        let mut dead: u64 = 0;
        let written = line.iter().zip(steps).map(|(older, (more, less))| {
            dead = dead.saturating_add(more).saturating_sub(less);
            let still = older.referenced.saturating_sub(dead);
            (older.id, entry.referenced.saturating_sub(still))
        });
        Since {
            txg,
            id: entry.id,
            written: written.collect(),
        }
    }
}

/// The sums that are kept in memory for later calls.
#[derive(Default)]
pub(crate) struct DeadSums {
    known: Mutex<BTreeMap<u64, Arc<Sums>>>,
    pub(crate) since: Mutex<Option<Arc<Since>>>,
}

impl DeadSums {
    fn of(&self, id: u64) -> Arc<Sums> {
        self.known.lock().get(&id).cloned().unwrap_or_default()
    }

    /// Keeps sums that were read, and drops those of destroyed datasets and snapshots.
    pub(crate) fn keep(&self, state: &DatasetTable, read: &Known) {
        let mut known = self.known.lock();
        known.extend(read.0.iter().map(|(id, sums)| (*id, Arc::clone(sums))));
        known.retain(|id, _| state.get(*id).is_some());
        if known
            .values()
            .map(|sums| sums.parts.len() + 1)
            .sum::<usize>()
            > KEPT_MAX
        {
            known.clear();
        }
    }
}
