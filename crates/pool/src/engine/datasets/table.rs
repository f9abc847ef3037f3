//! The dataset table in memory, and the other records of the pool itself that a commit writes.
//!
//! Only a commit changes it. Readers see the state that the running commit will make durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::frees::free_waits::FreeWaits;
use crate::engine::retention::pool_clock::PoolClock;
use crate::error::{Error, Result};
use crate::format::datasets::entry::{DatasetKind, Entry};
use crate::format::datasets::entry_flags::PARTIAL;
use crate::format::jobs::free_job::FreeJob;
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::checkpoint::Checkpoint;
use crate::format::superblock::config::{Config, Purpose};
use crate::format::superblock::features::{
    FEATURE_GROWN, FEATURE_LOG_DEVICES, FEATURE_PARITY, FEATURE_REDUNDANT, FEATURE_REMOVED,
    FEATURE_TRIPLE_PARITY,
};
use crate::format::superblock::history_line::HistoryLine;
use crate::format::superblock::root::PoolRoot;
use crate::names::{DatasetName, NAME_MAX, is_part};
use crate::storage::array::walk;
use crate::storage::reader::PoolReader;

/// The state of a pool outside of its datasets.
#[derive(Clone)]
pub(crate) struct DatasetTable {
    pub(crate) root: PoolRoot,
    /// The name of the pool while it is imported, if it is not the one in the root.
    pub(crate) temporary_name: Option<String>,
    pub(crate) txg: u64,
    pub(crate) config: Config,
    pub(crate) checkpoint: Option<Arc<Checkpoint>>,
    pub(crate) async_free: BTreeMap<u64, FreeJob>,
    /// The jobs of the free queue that wait.
    pub(crate) free_waits: FreeWaits,
    /// Lines that the next commit will append to the history.
    pub(crate) history_waiting: Vec<HistoryLine>,
    /// Like `names`, this is shared with copies of the table until one of them changes. A commit keeps a copy to undo a
    /// failed task.
    entries: Arc<BTreeMap<u64, Arc<Entry>>>,
    /// Datasets by parent and name; snapshots by dataset and name, with `@` before it.
    names: Arc<BTreeMap<(u64, String), u64>>,
    /// The ids of entries that the running commit has changed or removed.
    pub(crate) dirty: BTreeSet<u64>,
    /// The slots of jobs that the running commit has changed or removed.
    pub(crate) async_free_dirty: BTreeSet<u64>,
    /// True if the configuration changed.
    pub(crate) config_dirty: bool,
    /// The clock of the pool, once it is imported.
    pub(crate) clock: Option<PoolClock>,
}

impl DatasetTable {
    /// The state of a pool without datasets.
    pub(crate) fn new(root: PoolRoot, txg: u64, config: Config) -> DatasetTable {
        DatasetTable {
            root,
            temporary_name: None,
            txg,
            config,
            checkpoint: None,
            async_free: BTreeMap::new(),
            free_waits: FreeWaits::default(),
            entries: Arc::default(),
            names: Arc::default(),
            dirty: BTreeSet::new(),
            async_free_dirty: BTreeSet::new(),
            history_waiting: Vec::new(),
            config_dirty: false,
            clock: None,
        }
    }

    /// Reads the state below a root.
    pub(crate) fn load(
        disk: &PoolReader,
        root: PoolRoot,
        txg: u64,
        config: Config,
    ) -> Result<DatasetTable> {
        let mut state = DatasetTable::new(root, txg, config);
        let (table, next_id) = (state.root.datasets, state.root.next_id.get());
        disk.on_durable(&state.root.remap, &state.config);
        walk::each_record(disk, &table, &mut |slot, ptr| {
            // The id 0 means no entry.
            let entry = Entry::decode(&disk.clear_record(ptr)?)
                .filter(|entry| entry.id == slot && (1..next_id).contains(&entry.id))
                .filter(|entry| entry.name.is_empty() || is_name(entry))
                .ok_or_else(|| inconsistent(format!("entry {slot} cannot be read")))?;
            state.index(Arc::new(entry))
        })?;
        state.async_free = load_jobs(disk, &state.root.async_free)?;
        state.checkpoint = load_checkpoint(disk, &state.root.checkpoint, txg)?;
        state.check()?;
        Ok(state)
    }

    /// Returns whether freed space is discarded: the property `autotrim` of the root dataset.
    pub(crate) fn discards(&self) -> bool {
        let top = self.top().ok();
        let word = top.and_then(|top| top.props.get("autotrim"));
        word.is_none_or(|word| word != "off")
    }

    /// Returns the number of jobs of the free queue that can go on now.
    pub(crate) fn frees_due(&self, now: u64) -> usize {
        let slots = self.async_free.keys();
        slots
            .filter(|slot| self.free_waits.is_due(**slot, now))
            .count()
    }

    /// Sets the feature bits of the root that the configuration needs.
    pub(crate) fn note_redundancy(&mut self) {
        if let Some(epoch) = self.config.epochs.last() {
            self.root.features_required |= FEATURE_REDUNDANT;
            self.root.epoch = epoch.guid.into();
        }
        if !self.config.shapes.is_empty() {
            self.root.features_required |= FEATURE_PARITY;
        }
        if self.config.shapes.iter().any(|shape| shape.parity() > 2) {
            self.root.features_required |= FEATURE_TRIPLE_PARITY;
        }
        let has_logs = self.config.purposes().take(self.config.roles.len());
        let has_logs = has_logs.into_iter().any(|purpose| purpose == Purpose::Logs);
        if has_logs {
            self.root.features_required |= FEATURE_LOG_DEVICES;
        }
        if self.config.removal.is_some() {
            self.root.features_required |= FEATURE_REMOVED;
        }
        if !self.config.stretches.is_empty() {
            self.root.features_required |= FEATURE_GROWN;
        }
    }

    fn index(&mut self, entry: Arc<Entry>) -> Result<()> {
        if Arc::make_mut(&mut self.names)
            .insert(name_key(&entry), entry.id)
            .is_some()
        {
            return Err(inconsistent(format!(
                "two entries have the name '{}'",
                entry.name
            )));
        }
        Arc::make_mut(&mut self.entries).insert(entry.id, entry);
        Ok(())
    }

    /// Checks that the entries form one tree, with one line of snapshots for each dataset.
    fn check(&self) -> Result<()> {
        for entry in self.entries.values() {
            if !self.reaches_top(entry) {
                return Err(inconsistent(format!("entry {} has no parent", entry.id)));
            }
            let before = entry.prev_snap;
            let line_fits = before == 0
                || self.entries.get(&before).is_some_and(|snap| {
                    snap.is_snapshot()
                        && snap.next == entry.id
                        && snap.created_txg == entry.prev_snap_txg
                        && (snap.created_txg < entry.created_txg || !entry.is_snapshot())
                        && snap.parent == head_id(entry)
                });
            if !line_fits {
                return Err(inconsistent(format!(
                    "entry {} has a broken line of snapshots",
                    entry.id
                )));
            }
            if entry.is_snapshot() && !self.is_in_line(entry) {
                let what = format!("snapshot {} is in no line", entry.id);
                return Err(inconsistent(what));
            }
            if entry.volume().is_some() != self.is_of_volume(entry) {
                let what = format!("entry {} is not what its dataset is", entry.id);
                return Err(inconsistent(what));
            }
            if before == 0 && !self.origin_fits(entry) {
                let what = format!("entry {} is no clone of its origin", entry.id);
                return Err(inconsistent(what));
            }
        }
        Ok(())
    }

    /// Returns whether an entry is a volume or a snapshot of one.
    fn is_of_volume(&self, entry: &Entry) -> bool {
        let head = self.get(head_id(entry));
        head.is_some_and(|head| head.kind == DatasetKind::Volume)
    }

    /// Returns whether the successor of a snapshot names it as its predecessor. Otherwise destroying the snapshot would
    /// move the successor to another line, or make the line circular.
    fn is_in_line(&self, snapshot: &Entry) -> bool {
        let next = self.get(snapshot.next);
        snapshot.created_txg <= self.txg && next.is_some_and(|next| next.prev_snap == snapshot.id)
    }

    /// Returns whether the first snapshot of a clone continues from the clone's origin. Lines end, because each
    /// snapshot is older than the next one.
    fn origin_fits(&self, entry: &Entry) -> bool {
        let Some(head) = self.get(head_id(entry)) else {
            return false;
        };
        head.origin == 0
            || self.get(head.origin).is_some_and(|origin| {
                origin.is_snapshot()
                    && origin.family == entry.family
                    && origin.created_txg == entry.prev_snap_txg
                    && (origin.created_txg < entry.created_txg || !entry.is_snapshot())
                    && origin.parent != head.id
            })
    }

    /// Returns whether an entry's parents lead to the root dataset.
    fn reaches_top(&self, entry: &Entry) -> bool {
        let mut entry = entry;
        // The largest number of parts in a name of 255 bytes.
        for _ in 0..=NAME_MAX {
            match self.entries.get(&entry.parent) {
                Some(parent) if !parent.is_snapshot() => entry = parent,
                Some(_) => return false,
                None => {
                    return entry.parent == 0 && !entry.is_snapshot() && entry.name.is_empty();
                }
            }
        }
        false
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Arc<Entry>> {
        self.entries.get(&id)
    }

    /// The entry with an id that is known to exist.
    pub(crate) fn entry(&self, id: u64) -> Result<&Arc<Entry>> {
        self.get(id)
            .ok_or_else(|| inconsistent(format!("there is no entry {id}")))
    }

    /// The entry with an id that is known to exist, to change it.
    pub(crate) fn edit(&mut self, id: u64) -> Result<&mut Entry> {
        self.dirty.insert(id);
        Arc::make_mut(&mut self.entries)
            .get_mut(&id)
            .map(Arc::make_mut)
            .ok_or_else(|| inconsistent(format!("there is no entry {id}")))
    }

    /// Adds an entry whose name is free.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.dirty.insert(entry.id);
        let named = Arc::make_mut(&mut self.names).insert(name_key(&entry), entry.id);
        debug_assert!(named.is_none(), "the name is free");
        Arc::make_mut(&mut self.entries).insert(entry.id, Arc::new(entry));
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Arc<Entry>> {
        let entry = Arc::make_mut(&mut self.entries).remove(&id)?;
        Arc::make_mut(&mut self.names).remove(&name_key(&entry));
        self.dirty.insert(id);
        Some(entry)
    }

    /// Gives an entry another name, which is free.
    pub(crate) fn rename(&mut self, id: u64, parent: u64, name: &str) -> Result<()> {
        let old = name_key(self.entry(id)?);
        let entry = self.edit(id)?;
        entry.parent = parent;
        entry.name = name.into();
        let new = name_key(entry);
        let names = Arc::make_mut(&mut self.names);
        names.remove(&old);
        let named = names.insert(new, id);
        debug_assert!(named.is_none(), "the name is free");
        Ok(())
    }

    /// An id that was never used.
    pub(crate) fn new_id(&mut self) -> u64 {
        let id = self.root.next_id.get();
        self.root.next_id = (id + 1).into();
        id
    }

    /// The root dataset.
    pub(crate) fn top(&self) -> Result<&Arc<Entry>> {
        let id = self.names.get(&(0, String::new()));
        id.and_then(|id| self.get(*id))
            .ok_or_else(|| inconsistent("there is no root dataset".into()))
    }

    pub(crate) fn pool_name(&self) -> String {
        self.temporary_name
            .clone()
            .unwrap_or_else(|| self.root.name())
    }

    pub(crate) fn find(&self, name: &str) -> Result<&Arc<Entry>> {
        let parsed = DatasetName::parse(name)?;
        let missing = |name: &str| Error::NoSuchDataset { name: name.into() };
        let (dataset, _) = name.split_once('@').unwrap_or((name, ""));
        if parsed.pool != self.pool_name() {
            return Err(missing(dataset));
        }
        let mut entry = self.top()?;
        for part in parsed.path {
            let child = self.child(entry.id, part.to_owned());
            entry = child.ok_or_else(|| missing(dataset))?;
        }
        let Some(snapshot) = parsed.snapshot else {
            return Ok(entry);
        };
        let found = self.child(entry.id, format!("@{snapshot}"));
        found.ok_or_else(|| missing(name))
    }

    fn child(&self, parent: u64, key: String) -> Option<&Arc<Entry>> {
        self.get(*self.names.get(&(parent, key))?)
    }

    /// The whole name of an entry.
    pub(crate) fn name_of(&self, entry: &Entry) -> String {
        let own = match (entry.parent, entry.is_snapshot()) {
            (0, _) => return self.pool_name(),
            (_, true) => format!("@{}", entry.name),
            (_, false) => format!("/{}", entry.name),
        };
        match self.get(entry.parent) {
            Some(parent) => self.name_of(parent) + &own,
            None => own,
        }
    }

    /// The datasets directly below one, by name, without datasets that are being received.
    pub(crate) fn children(&self, id: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.below(id)
            .filter(|entry| !entry.is_snapshot() && !entry.is_partial())
    }

    /// The hidden datasets of running receives, directly below one dataset.
    pub(crate) fn partials(&self, id: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.below(id).filter(|entry| entry.is_partial())
    }

    /// The hidden dataset of a running receive into the dataset with this parent and name.
    pub(crate) fn partial_of(&self, parent: u64, name: &str) -> Option<&Arc<Entry>> {
        self.child(parent, format!("{PARTIAL}{name}"))
    }

    /// The hidden dataset of a running receive into an existing dataset.
    pub(crate) fn partial_into(&self, entry: &Entry) -> Option<&Arc<Entry>> {
        match entry.parent {
            // It is below the root dataset.
            0 => None,
            parent => self.partial_of(parent, &entry.name),
        }
    }

    /// The number of running receives below a dataset that would make a dataset there.
    pub(crate) fn new_partials(&self, id: u64) -> u64 {
        let is_new = |partial: &&Arc<Entry>| {
            let name = partial.name.trim_start_matches(PARTIAL);
            !name.is_empty() && self.child(partial.parent, name.to_owned()).is_none()
        };
        let heads = self.subtree(id);
        let counts = heads
            .iter()
            .map(|head| self.partials(head.id).filter(is_new).count());
        counts.sum::<usize>() as u64
    }

    fn below(&self, id: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.names
            .range((id, String::new())..)
            .take_while(move |((parent, _), _)| *parent == id)
            .filter_map(|(_, child)| self.get(*child))
            .filter(|entry| entry.parent != 0)
    }

    /// A dataset and everything below it, parents first, without snapshots.
    pub(crate) fn subtree(&self, id: u64) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = self.get(id).cloned().into_iter().collect();
        let mut next = 0;
        while next < all.len() {
            let children: Vec<_> = self.children(all[next].id).cloned().collect();
            all.splice(next + 1..next + 1, children);
            next += 1;
        }
        all
    }

    /// The snapshots of a dataset, or those before a snapshot, the newest first.
    pub(crate) fn snapshots(&self, entry: &Entry) -> Vec<Arc<Entry>> {
        let mut all = Vec::new();
        let mut id = entry.prev_snap;
        while let Some(snapshot) = self.get(id) {
            all.push(Arc::clone(snapshot));
            id = snapshot.prev_snap;
        }
        all
    }

    /// The value of a property that is set at an entry or at the nearest one above it, and the id of that one.
    pub(crate) fn effective<'a>(
        &'a self,
        entry: &'a Entry,
        key: &str,
    ) -> Option<(&'a String, u64)> {
        let mut line = std::iter::successors(Some(entry), |entry| {
            self.get(entry.parent).map(|parent| &**parent)
        });
        line.find_map(|entry| Some((entry.props.get(key)?, entry.id)))
    }

    pub(crate) fn snapshot_count(&self, head: &Entry) -> u64 {
        let first = self.get(head.prev_snap);
        let line = std::iter::successors(first, |snapshot| self.get(snapshot.prev_snap));
        line.count() as u64
    }

    /// The snapshot that an entry shares records with: its predecessor, or the origin for the first snapshot of a
    /// clone.
    pub(crate) fn before(&self, entry: &Entry) -> Option<&Arc<Entry>> {
        match entry.prev_snap {
            0 => self.get(self.get(head_id(entry))?.origin),
            before => self.get(before),
        }
    }

    /// All snapshots that an entry may share records with, the newest first: of its own line, then of its origins'
    /// lines.
    pub(crate) fn line(&self, entry: &Entry) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = self.before(entry).cloned().into_iter().collect();
        while let Some(before) = all.last().and_then(|last| self.before(last)) {
            all.push(Arc::clone(before));
        }
        all
    }

    /// The bytes that an entry has and no earlier snapshot of its line has.
    pub(crate) fn own_bytes(&self, entry: &Entry) -> u64 {
        let before = self.before(entry).map_or(0, |before| before.referenced);
        let shared = before.saturating_sub(entry.dead_bytes);
        entry.referenced.saturating_sub(shared)
    }

    pub(crate) fn clones(&self, snapshot: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.all()
            .filter(move |entry| !entry.is_snapshot() && entry.origin == snapshot)
    }

    /// The number of origins of a dataset: its own, the origin of that one, and so on.
    pub(crate) fn origins(&self, head: u64) -> usize {
        let mut count = 0;
        let mut at = self.get(head);
        while let Some(origin) = at.and_then(|head| self.get(head.origin)) {
            count += 1;
            at = self.get(origin.parent);
        }
        count
    }

    /// Datasets without a key root: they are no key roots, and the dataset above has another key root.
    pub(crate) fn without_key_root(&self) -> BTreeSet<u64> {
        let is_lost = |entry: &&Arc<Entry>| {
            let above = self.get(entry.parent);
            entry.keyring.is_some()
                && !entry.is_partial()
                && entry.key_root != entry.id
                && above.is_none_or(|above| above.key_root != entry.key_root)
        };
        let lost = self.all().filter(is_lost);
        lost.map(|entry| entry.id).collect()
    }

    /// Every entry, by id.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// The bytes that datasets refer to, without their snapshots.
    pub(crate) fn referenced(&self) -> u64 {
        let heads = self.all().filter(|entry| !entry.is_snapshot());
        heads.fold(0, |sum, entry| sum.saturating_add(entry.referenced))
    }
}

/// Reads the jobs of the free queue.
fn load_jobs(disk: &PoolReader, root: &RecordPtr) -> Result<BTreeMap<u64, FreeJob>> {
    let mut jobs = BTreeMap::new();
    walk::each_record(disk, root, &mut |slot, ptr| {
        let job = FreeJob::decode(&disk.clear_record(ptr)?)
            .ok_or_else(|| Error::inconsistent("free queue", "a job cannot be read"))?;
        jobs.insert(slot, job);
        Ok(())
    })?;
    Ok(jobs)
}

/// Reads the checkpoint of a state, if it has one.
pub(crate) fn load_checkpoint(
    disk: &PoolReader,
    ptr: &RecordPtr,
    txg: u64,
) -> Result<Option<Arc<Checkpoint>>> {
    if ptr.is_empty() {
        return Ok(None);
    }
    let checkpoint = Checkpoint::decode(&disk.clear_record(ptr)?, txg)?;
    Ok(Some(Arc::new(checkpoint)))
}

/// The dataset of an entry: the parent of a snapshot, otherwise the entry itself.
pub(crate) fn head_id(entry: &Entry) -> u64 {
    match entry.kind {
        DatasetKind::Snapshot => entry.parent,
        DatasetKind::FileSystem | DatasetKind::Volume => entry.id,
    }
}

/// Returns whether the name of an entry is valid.
fn is_name(entry: &Entry) -> bool {
    match entry.name.strip_prefix(PARTIAL) {
        Some(rest) => entry.is_partial() && (rest.is_empty() || is_part(rest)),
        None => is_part(&entry.name),
    }
}

fn name_key(entry: &Entry) -> (u64, String) {
    let name = match entry.kind {
        DatasetKind::Snapshot => format!("@{}", entry.name),
        DatasetKind::FileSystem | DatasetKind::Volume => entry.name.clone(),
    };
    (entry.parent, name)
}

fn inconsistent(detail: String) -> Error {
    Error::inconsistent("dataset table", detail)
}

#[cfg(test)]
mod tests;
