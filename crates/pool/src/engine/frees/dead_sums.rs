//! The sums of deadlists, kept in memory.
//!
//! The bytes in a deadlist, by snapshots, are stored only in its sublists. There can be thousands of sublists, and a
//! commit replaces few of them. So each sublist is read once, and again after it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::frees::deadlist::Sublist;
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::records::pointer::{Addr, RecordPtr};
use crate::storage::array::walk::{self, Visit};
use crate::storage::reader::PoolReader;

/// The sublists whose sums stay in memory, and those that one question holds: about 16 MiB each.
const KEPT_MAX: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SublistSums {
    /// The oldest snapshot that has the records.
    pub(crate) snapshot: u64,
    /// The bytes on disk.
    pub(crate) bytes: u64,
    /// The bytes before compression; `None` if they were not counted.
    pub(crate) logical: Option<u64>,
    /// The address of the sublist, and its birth.
    place: (Addr, u64),
}

/// A question about deadlists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadlistQuestion {
    /// The bytes before compression.
    Logical,
    /// The bytes on disk that the snapshot with this id has.
    Since(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// The sums of the sublists, sorted by snapshots; none if it is short.
    parts: Vec<SublistSums>,
    /// The root of the deadlist, if all of it was read.
    root: Option<RecordPtr>,
    /// The remainder of the sums of too many sublists.
    short: Option<SublistTotals>,
}

/// The sums of all sublists of a deadlist.
#[derive(Clone, Copy, Debug)]
struct SublistTotals {
    /// The bytes before compression; `None` if they were not counted.
    logical: Option<u64>,
    /// The id of a snapshot, and the bytes on disk that it has.
    since: Option<(u64, u64)>,
}

/// The sum, or `None` if a part was not counted.
pub(crate) fn sum(parts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let mut parts = parts.into_iter();
    parts.try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?)))
}

impl Sums {
    fn is_of(&self, entry: &Entry, wanted: DeadlistQuestion) -> bool {
        let has_it = match (wanted, self.short) {
            (_, None) | (DeadlistQuestion::Logical, _) => true,
            (DeadlistQuestion::Since(id), Some(short)) => {
                short.since.is_some_and(|since| since.0 == id)
            }
        };
        self.root == Some(entry.deadlist) && has_it
    }

    fn logical(&self) -> Option<u64> {
        match self.short {
            Some(short) => short.logical,
            None => sum(self.parts.iter().map(|part| part.logical)),
        }
    }

    /// The bytes on disk that a snapshot has, if `newer` are the snapshots of the line after it.
    fn since(&self, id: u64, newer: &BTreeSet<u64>) -> u64 {
        if let Some((_, bytes)) = self.short.and_then(|s| s.since).filter(|s| s.0 == id) {
            return bytes;
        }
        let parts = self.parts.iter();
        let has_it = parts.filter(|part| !newer.contains(&part.snapshot));
        has_it.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// Only the sums of all sublists.
    fn shortened(&self, since: Option<(u64, u64)>) -> Sums {
        Sums {
            parts: Vec::new(),
            root: self.root,
            short: Some(SublistTotals {
                logical: self.logical(),
                since,
            }),
        }
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
            // A sublist that changed has a new place, or the same place with a new birth.
            if let Some(part) = known.filter(|part| part.place == place) {
                parts.push(part);
                return Ok(ControlFlow::Continue(()));
            }
            if *left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            *left -= 1;
            let sublist = Sublist::decode(&disk.clear_record(ptr)?)?;
            parts.push(SublistSums {
                snapshot,
                bytes: sublist.bytes(),
                logical: sublist.logical(),
                place,
            });
            Ok(ControlFlow::Continue(()))
        })?;
        debug_assert!(
            parts.is_sorted_by_key(|part| part.snapshot),
            "they are searched by snapshot"
        );
        let root = stopped.is_continue().then_some(*root);
        Ok(Sums {
            parts,
            root,
            short: None,
        })
    }
}

/// The sums of some deadlists, by the ids of their datasets and snapshots. It holds the sums of few enough sublists. Of
/// other deadlists it has only what is asked.
pub(crate) struct DeadSumCache {
    wanted: DeadlistQuestion,
    all: BTreeMap<u64, Arc<Sums>>,
    /// The number of parts in memory.
    held: usize,
}

impl DeadSumCache {
    pub(crate) fn new(wanted: DeadlistQuestion) -> DeadSumCache {
        DeadSumCache {
            wanted,
            all: BTreeMap::new(),
            held: 0,
        }
    }

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
            let sums = match self.all.get(&entry.id) {
                Some(sums) => Arc::clone(sums),
                None => kept.of(entry.id),
            };
            if sums.is_of(entry, self.wanted) {
                self.put(entry.id, sums);
                continue;
            }
            if left == 0 {
                return Ok(false);
            }
            let mut read = sums.update(disk, &entry.deadlist, &mut left)?;
            let is_whole = read.root.is_some();
            let held = self.held - self.held_of(entry.id);
            if is_whole && held + read.parts.len() > kept.max.load(Ordering::Relaxed) {
                read = read.shortened(self.answer(&read, entries));
            }
            self.put(entry.id, Arc::new(read));
            if !is_whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Answers a question about a deadlist, for one of these entries. They are the first ones of a line.
    fn answer(&self, sums: &Sums, entries: &[Arc<Entry>]) -> Option<(u64, u64)> {
        let DeadlistQuestion::Since(id) = self.wanted else {
            return None;
        };
        Some((id, sums.since(id, &newer_than(id, entries.iter()))))
    }

    fn held_of(&self, id: u64) -> usize {
        self.all.get(&id).map_or(0, |sums| sums.parts.len())
    }

    fn put(&mut self, id: u64, sums: Arc<Sums>) {
        self.held = self.held - self.held_of(id) + sums.parts.len();
        self.all.insert(id, sums);
    }

    /// The sums of the deadlist of an entry. The deadlist must have been read.
    fn sums(&self, entry: &Entry) -> Option<&Sums> {
        let sums = self.all.get(&entry.id);
        let sums = sums.filter(|sums| sums.is_of(entry, self.wanted));
        debug_assert!(sums.is_some() || entry.deadlist.is_empty());
        sums.map(Arc::as_ref)
    }

    /// The bytes before compression of an entry that no earlier snapshot of its line has; `None` if they were not
    /// counted.
    pub(crate) fn own_logical(&self, state: &DatasetTable, entry: &Entry) -> Option<u64> {
        let Some(before) = state.before(entry) else {
            return Some(entry.logical);
        };
        let dead = self.sums(entry).map_or(Some(0), Sums::logical)?;
        let shared = before.logical.saturating_sub(dead);
        Some(entry.logical.saturating_sub(shared))
    }
}

/// The ids of the entries of a line before that of a snapshot.
fn newer_than<'a>(id: u64, line: impl Iterator<Item = &'a Arc<Entry>>) -> BTreeSet<u64> {
    line.map(|entry| entry.id)
        .take_while(|at| *at != id)
        .collect()
}

/// The bytes that an entry has and snapshots of its line do not have, in one state of the pool.
pub(crate) struct UniqueBytes {
    /// The transaction group of the state.
    pub(crate) txg: u64,
    /// The id of the entry.
    pub(crate) id: u64,
    /// Bytes on disk, by the ids of the snapshots.
    pub(crate) written: BTreeMap<u64, u64>,
    /// True if there are too many sublists to count for all snapshots at once.
    pub(crate) is_single: bool,
}

impl UniqueBytes {
    /// Counts for an entry and the newest snapshots of its line, or only for the snapshot that is asked for. The
    /// deadlists of all but the last one must be known.
    pub(crate) fn of(
        txg: u64,
        entry: &Entry,
        line: &[Arc<Entry>],
        known: &DeadSumCache,
    ) -> UniqueBytes {
        let newer = || [entry].into_iter().chain(line.iter().map(Arc::as_ref));
        let mut read = newer()
            .take(line.len())
            .filter_map(|entry| known.sums(entry));
        let is_single = read.any(|sums| sums.short.is_some());
        let written = match known.wanted {
            DeadlistQuestion::Since(id) if is_single => {
                UniqueBytes::single(entry, line, (id, known))
            }
            _ => UniqueBytes::each(entry, line, known),
        };
        UniqueBytes {
            txg,
            id: entry.id,
            written,
            is_single,
        }
    }

    /// Counts for one snapshot of the line. The deadlists of all entries before it must be known.
    pub(crate) fn single(
        entry: &Entry,
        line: &[Arc<Entry>],
        (id, known): (u64, &DeadSumCache),
    ) -> BTreeMap<u64, u64> {
        let newer = newer_than(id, line.iter());
        let between = [entry].into_iter().chain(line.iter().map(Arc::as_ref));
        let mut dead: u64 = 0;
        for entry in between.take_while(|entry| entry.id != id) {
            let sums = known.sums(entry);
            dead = dead.saturating_add(sums.map_or(0, |sums| sums.since(id, &newer)));
        }
        let older = line.iter().find(|older| older.id == id);
        let still = older.map(|older| older.referenced.saturating_sub(dead));
        let written = still.map(|still| (id, entry.referenced.saturating_sub(still)));
        written.into_iter().collect()
    }

    /// Counts for each snapshot of the line.
    fn each(entry: &Entry, line: &[Arc<Entry>], known: &DeadSumCache) -> BTreeMap<u64, u64> {
        let places: BTreeMap<u64, usize> = (line.iter().map(|older| older.id)).zip(0..).collect();
        // A record in the deadlist at index `from` counts for the snapshots from `from` to the oldest one that has it.
        let mut steps = vec![(0_u64, 0_u64); line.len() + 1];
        let newer = [entry].into_iter().chain(line.iter().map(Arc::as_ref));
        for (from, newer) in newer.take(line.len()).enumerate() {
            for part in known.sums(newer).map_or(&[][..], |sums| &sums.parts) {
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
        written.collect()
    }
}

/// The sums that are kept in memory for later calls.
pub(crate) struct DeadSums {
    known: Mutex<BTreeMap<u64, Arc<Sums>>>,
    pub(crate) since: Mutex<Option<Arc<UniqueBytes>>>,
    /// The limits: the number of sublists with a sum here, and their number in one question.
    pub(crate) max: AtomicUsize,
}

impl Default for DeadSums {
    fn default() -> DeadSums {
        DeadSums {
            known: Mutex::default(),
            since: Mutex::default(),
            max: KEPT_MAX.into(),
        }
    }
}

impl DeadSums {
    fn of(&self, id: u64) -> Arc<Sums> {
        self.known.lock().get(&id).cloned().unwrap_or_default()
    }

    /// Keeps sums that were read, and drops those of destroyed datasets and snapshots. If there are too many sublists,
    /// only the sums of whole deadlists stay, of snapshots first: their deadlists seldom change.
    pub(crate) fn keep(&self, state: &DatasetTable, read: &DeadSumCache) {
        let mut known = self.known.lock();
        known.extend(read.all.iter().map(|(id, sums)| (*id, Arc::clone(sums))));
        // Ids are never used again, so sums of a destroyed dataset are of no use.
        known.retain(|id, _| state.get(*id).is_some());
        let max = self.max.load(Ordering::Relaxed);
        let mut held: usize = known.values().map(|sums| sums.parts.len()).sum();
        for is_snapshot in [true, false] {
            for (id, sums) in known.iter_mut() {
                let is_it = state
                    .get(*id)
                    .is_some_and(|e| e.is_snapshot() == is_snapshot);
                if held > max && is_it && sums.root.is_some() {
                    held -= sums.parts.len();
                    *sums = Arc::new(sums.shortened(None));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_impossible_numbers_is_the_highest() {
        assert_eq!(sum([Some(u64::MAX), Some(2), Some(3)]), Some(u64::MAX));
        assert_eq!(sum([Some(1), None]), None);
        assert_eq!(sum([]), Some(0));
    }
}
