//! The journal: changes since the last commit that are not in the log yet.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use vfs::Ino;

use super::Scope;
use super::steps::{Counters, Edits, put_edits};
use crate::layout::{KeyKind, attr_key};
use crate::tree::Header;

/// The journal keeps at most this many bytes. If there are more, the next `fsync` commits.
const KEPT_MAX: usize = 4 << 20;
/// After this many commits without `fsync`, changes are no longer noted.
const IDLE_COMMITS: u32 = 64;
/// The bytes that are counted for a change besides its keys and values.
const OVERHEAD: usize = 64;

/// The changes of a dataset that are neither committed nor logged.
#[derive(Default)]
pub(crate) struct ChangeJournal {
    pending: Mutex<JournalState>,
}

#[derive(Default)]
struct JournalState {
    /// The first transaction group that is noted completely; `None` if nothing is noted.
    since: Option<u64>,
    /// True if noting begins with the next transaction group.
    is_wanted: bool,
    /// Commits since the last `fsync`.
    idle: u32,
    /// Changes of names and the like, in their order, ready to be written.
    names: VecDeque<(u64, Vec<u8>)>,
    /// The changes of files whose contents changed, by transaction group.
    files: HashMap<Ino, Vec<FileChanges>>,
    /// The last transaction group with something that the log cannot express.
    barrier: u64,
    bytes: usize,
}

/// Changes of one file in one transaction group. Later values replace earlier ones.
struct FileChanges {
    txg: u64,
    counters: Counters,
    edits: Edits,
    ranges: Vec<ChangedRange>,
}

/// A part of a record whose contents changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedRange {
    pub(crate) txg: u64,
    pub(crate) record: u64,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// True if the whole record was replaced, also by a hole.
    pub(crate) is_whole: bool,
}

impl ChangeJournal {
    /// Notes a change of the tree. Called in the order in which changes are made.
    pub(crate) fn note(&self, txg: u64, scope: Scope, header: &Header, edits: &Edits) {
        if scope == Scope::Upkeep || edits.is_empty() {
            return;
        }
        let mut pending = self.pending.lock();
        if pending.since.is_none_or(|since| txg < since) {
            return;
        }
        let counters = Counters {
            next_ino: header.next_ino,
            next_data: header.next_data,
        };
        pending.note(txg, scope, counters, edits);
        pending.keep_within_bounds();
    }

    /// Notes that contents of a file changed.
    pub(crate) fn note_range(&self, ino: Ino, range: ChangedRange) {
        let mut pending = self.pending.lock();
        if pending.since.is_none_or(|since| range.txg < since) {
            return;
        }
        pending.file(ino, range.txg).add_range(range);
        pending.bytes += OVERHEAD;
        pending.keep_within_bounds();
    }

    /// Notes a change that the log cannot express.
    pub(crate) fn note_unlogged(&self, txg: u64) {
        let mut pending = self.pending.lock();
        pending.barrier = pending.barrier.max(txg);
    }

    /// The ranges of a file that are not logged. `None` if `fsync` has to commit. `committed` is the last transaction
    /// group that is committed.
    pub(crate) fn ranges(&self, ino: Ino, committed: u64) -> Option<Vec<ChangedRange>> {
        let mut pending = self.pending.lock();
        // `fsync` is in use: the log stays.
        pending.idle = 0;
        if !pending.can_log(committed) {
            return None;
        }
        let changes = pending.files.get(&ino).into_iter().flatten();
        Some(changes.flat_map(|c| c.ranges.iter().copied()).collect())
    }

    /// Takes the steps of an entry for a file, without the steps of contents. Calls `then` with these steps, and with
    /// whether the contents are still needed, before another thread can take steps. `None` as for [`ChangeJournal::ranges`].
    pub(crate) fn take<R>(
        &self,
        ino: Ino,
        committed: u64,
        then: impl FnOnce(Vec<u8>, bool) -> R,
    ) -> Option<R> {
        let mut pending = self.pending.lock();
        if !pending.can_log(committed) {
            return None;
        }
        let mut steps = Vec::new();
        // The names of all files, in their order: a replay needs the directories of this file too.
        for (_, step) in std::mem::take(&mut pending.names) {
            steps.extend(step);
        }
        let changes = pending.files.remove(&ino).unwrap_or_default();
        for change in &changes {
            put_edits(&mut steps, change.txg, change.counters, &change.edits);
        }
        pending.recount();
        let has_contents = changes.iter().any(|change| !change.ranges.is_empty());
        Some(then(steps, has_contents))
    }

    /// Begins to note changes with the next transaction group.
    pub(crate) fn want(&self) {
        self.pending.lock().is_wanted = true;
    }

    /// Called when a transaction group closes. True if `fsync` was not used for a long time: noting stops, and the log
    /// is no longer needed.
    pub(crate) fn freeze(&self, txg: u64) -> bool {
        let mut pending = self.pending.lock();
        pending.idle += 1;
        if pending.idle > IDLE_COMMITS && pending.is_wanted {
            *pending = JournalState::default();
            return true;
        }
        if pending.since.is_none() && pending.is_wanted {
            // The closing group was noted in part only.
            pending.since = Some(txg + 1);
        }
        false
    }

    pub(crate) fn stop(&self) {
        *self.pending.lock() = JournalState::default();
    }

    /// Called when all transaction groups up to this one are durable.
    pub(crate) fn committed(&self, txg: u64) {
        let mut pending = self.pending.lock();
        while pending.names.front().is_some_and(|(of, _)| *of <= txg) {
            pending.names.pop_front();
        }
        pending.files.retain(|_, changes| {
            changes.retain(|change| change.txg > txg);
            !changes.is_empty()
        });
        pending.recount();
    }
}

impl JournalState {
    fn can_log(&self, committed: u64) -> bool {
        self.since.is_some_and(|since| since <= committed + 1) && self.barrier <= committed
    }

    fn note(&mut self, txg: u64, scope: Scope, counters: Counters, edits: &Edits) {
        let scope = self.scope_of(scope, edits);
        match scope {
            Scope::Contents(ino) => {
                let file = self.file(ino, txg);
                file.counters = counters;
                for (key, value) in edits {
                    file.edits.insert(key.clone(), value.clone());
                }
            }
            Scope::Names => {
                let mut step = Vec::new();
                put_edits(&mut step, txg, counters, edits);
                self.names.push_back((txg, step));
            }
            Scope::Unlogged => self.barrier = self.barrier.max(txg),
            Scope::Upkeep => return,
        }
        self.bytes += OVERHEAD + bytes_of(edits);
    }

    /// The scope of a change in the log. If a change of names concerns a file with unlogged contents, it is logged only
    /// together with these. Otherwise the log would show the file as if the contents existed.
    fn scope_of(&mut self, scope: Scope, edits: &Edits) -> Scope {
        let counts_owners = edits.keys().any(|key| is_owner_count(key));
        match scope {
            Scope::Names => {}
            // The counts belong to many files, and the contents of files are logged in any order.
            Scope::Contents(_) if counts_owners => return Scope::Unlogged,
            Scope::Contents(_) | Scope::Upkeep | Scope::Unlogged => return scope,
        }
        let mut touched: Vec<Ino> = edits.keys().filter_map(|key| inode_of(key)).collect();
        // Keys of one inode are neighbours.
        touched.dedup();
        for ino in &touched {
            if matches!(edits.get(&attr_key(*ino)), Some(None)) {
                self.give_up_contents(*ino);
            }
        }
        match touched[..] {
            [ino] if self.files.contains_key(&ino) && !counts_owners => Scope::Contents(ino),
            _ if touched.iter().any(|ino| self.files.contains_key(ino)) => Scope::Unlogged,
            _ => Scope::Names,
        }
    }

    /// Forgets the contents of a file that is about to be removed. Keeps its earlier changes of the tree: without them,
    /// a replay would not free the space of truncated data.
    fn give_up_contents(&mut self, ino: Ino) {
        for change in self.files.remove(&ino).unwrap_or_default() {
            let mut step = Vec::new();
            put_edits(&mut step, change.txg, change.counters, &change.edits);
            self.names.push_back((change.txg, step));
        }
    }

    fn file(&mut self, ino: Ino, txg: u64) -> &mut FileChanges {
        // Groups only get higher: a change is noted under its hold.
        let changes = self.files.entry(ino).or_default();
        if changes.last().is_none_or(|last| last.txg != txg) {
            changes.push(FileChanges {
                txg,
                counters: Counters::default(),
                edits: Edits::new(),
                ranges: Vec::new(),
            });
        }
        debug_assert!(
            changes.is_sorted_by(|a, b| a.txg < b.txg),
            "one item for each group"
        );
        changes.last_mut().expect("just pushed")
    }

    fn keep_within_bounds(&mut self) {
        if self.bytes > KEPT_MAX {
            *self = JournalState {
                is_wanted: true,
                idle: self.idle,
                ..JournalState::default()
            };
        }
    }

    fn recount(&mut self) {
        let names = self.names.iter().map(|(_, step)| OVERHEAD + step.len());
        let files = self.files.values().flatten();
        let files =
            files.map(|file| OVERHEAD + bytes_of(&file.edits) + file.ranges.len() * OVERHEAD);
        self.bytes = names.sum::<usize>() + files.sum::<usize>();
    }
}

impl FileChanges {
    fn add_range(&mut self, range: ChangedRange) {
        if let Some(last) = self.ranges.last_mut()
            && last.record == range.record
            && !range.is_whole
            && range.start <= last.end
            && range.end >= last.start
        {
            last.start = last.start.min(range.start);
            last.end = last.end.max(range.end);
            return;
        }
        if range.is_whole {
            // The log gets the present contents, so that one range is enough.
            self.ranges.retain(|earlier| earlier.record != range.record);
        }
        self.ranges.push(range);
    }
}

fn bytes_of(edits: &Edits) -> usize {
    let sizes = edits.iter();
    sizes
        .map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len))
        .sum()
}

/// The inode that a key belongs to; `None` for a key of the dataset itself.
fn inode_of(key: &[u8]) -> Option<Ino> {
    let ino = key.first_chunk().map(|ino| u64::from_be_bytes(*ino))?;
    (ino > 0).then_some(ino)
}

fn is_owner_count(key: &[u8]) -> bool {
    crate::layout::dataset_number(key, KeyKind::Shared).is_some()
}
