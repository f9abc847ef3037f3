//! A commit: making a transaction group durable.
//!
//! The order of writes makes a commit atomic. Records, nodes and new key blocks go to places that nothing durable
//! points to, and are flushed. Then the superblock with the new roots is written and flushed. Only then can the
//! space that the group freed be used again. After a power cut at any moment the pool has either the old superblock
//! and everything below it, or the new one.

use std::sync::Arc;

use crate::engine::state_lock::StateLock;
use zerocopy::IntoBytes;

use crate::engine::datasets::facts;
use crate::engine::datasets::open_dataset::{CommitDataset, DatasetHooks, OpenDataset};
use crate::engine::datasets::placed_record::PlacedRecord;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::frees::async_free;
use crate::engine::frees::deadlist::{self, Dead};
use crate::engine::history;
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::datasets::seal_input::SealInput;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::extent::Class;
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::{RecordIdentity, RecordPtr};
use crate::storage::array::Overlay;
use crate::storage::array::update::{UpdateTarget, relevel, update};
use crate::storage::space::{ENTRIES_PER_PAGE, SegmentEntry};
use crate::storage::writer::batch::BatchPiece;
use crate::storage::writer::txg::TxgWriter;

impl TxgWriter<'_> {
    /// Puts a record into a slot of an open dataset. The commit writes records together.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) if the pool is full; [`Error::Store`](crate::Error::Store) if a
    /// device fails.
    pub fn put(
        &self,
        dataset: &OpenDataset,
        array: ArrayKind,
        slot: u64,
        identity: RecordIdentity,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let placed = dataset.allocate(array, identity, &bytes)?;
        // Readers may need the map before it is on a device.
        self.core
            .disk
            .hold_unwritten_map(&placed.place(), placed.allotted());
        let writes = placed
            .allotted()
            .pieces(&BatchPiece::Bytes(Arc::new(bytes)));
        self.write_later(writes)?;
        self.put_placed(dataset, array, slot, placed);
        Ok(())
    }

    /// Empties a slot of an open dataset.
    pub fn punch(&self, dataset: &OpenDataset, array: ArrayKind, slot: u64) {
        dataset.put_syncing(self.txg, array, slot, RecordPtr::EMPTY);
    }

    /// The record that a slot of an open dataset has after the changes of this commit so far.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Inconsistent`](crate::Error::Inconsistent) if a
    /// node cannot be read; [`Error::Store`](crate::Error::Store) if a device fails.
    pub fn current(&self, dataset: &OpenDataset, array: ArrayKind, slot: u64) -> Result<RecordPtr> {
        let (root, changed) = dataset.syncing(array);
        match changed.get(slot) {
            Some(ptr) => Ok(ptr),
            None => crate::storage::array::walk::get(&self.core.disk, &root, slot),
        }
    }

    /// Puts a record that is already written into a slot of an open dataset.
    pub fn put_placed(
        &self,
        dataset: &OpenDataset,
        array: ArrayKind,
        slot: u64,
        placed: PlacedRecord,
    ) -> RecordPtr {
        let ptr = placed.into_ptr(self.txg);
        dataset.put_syncing(self.txg, array, slot, ptr);
        ptr
    }

    /// Calls each key holder to put its changes into the arrays. Then writes the changed nodes.
    pub(crate) fn sync_datasets(
        &self,
        parts: &[CommitDataset],
        state: &StateLock,
    ) -> Result<Vec<SyncedDataset>> {
        let mut all = Vec::new();
        for part in parts.iter().filter(|part| part.dataset.is_writable()) {
            let CommitDataset { dataset, holder } = part;
            if let Some(holder) = holder {
                holder.sync(self)?;
            }
            // The holder may have put records, and emptied slots, just now.
            let (_, pages) = dataset.syncing(ArrayKind::Pages);
            let (data_root, data) = dataset.syncing(ArrayKind::Data);
            if pages.is_empty() && data.is_empty() && !dataset.log.lock().wants_commit() {
                continue;
            }
            let entry = Arc::clone(state.read().entry(dataset.id)?);
            if let Some(holder) = holder {
                self.keep_seals(holder.as_ref(), &entry)?;
            }
            // Read again: kept seals are records of `pages`.
            let (pages_root, pages) = dataset.syncing(ArrayKind::Pages);
            let mut target = DatasetTarget::new(self, entry.prev_snap_txg);
            let disk = &self.core.disk;
            let pages_root = update(disk, &pages_root, &pages.edits(), &mut target)?;
            target.array = ArrayKind::Data;
            let data_root = update(disk, &data_root, &data.edits(), &mut target)?;
            all.push(SyncedDataset {
                part: part.clone(),
                roots: [pages_root, data_root],
                delta: target.delta,
            });
        }
        Ok(all)
    }

    /// Makes the next state of a dataset keep the seal of the present state.
    fn keep_seals(&self, holder: &dyn DatasetHooks, entry: &Entry) -> Result<()> {
        let past = entry.seals_to_keep();
        if past.is_empty() {
            return Ok(());
        }
        self.core.note_seal_history();
        holder.keep_seals(self, &past)
    }

    /// Gives the arrays of a dataset, with the changes of this commit, these heights. Returns their roots.
    pub(crate) fn relevel(
        &self,
        state: &mut DatasetTable,
        id: u64,
        levels: [u8; 2],
    ) -> Result<[RecordPtr; 2]> {
        let entry = Arc::clone(state.entry(id)?);
        let mut target = DatasetTarget::new(self, entry.prev_snap_txg);
        let mut roots = entry.roots;
        for (array, (root, level)) in ArrayKind::ALL.into_iter().zip(roots.iter_mut().zip(levels)) {
            target.array = array;
            *root = relevel(&self.core.disk, root, level, &mut target)?;
        }
        let delta = target.delta;
        let entry = state.edit(id)?;
        entry.roots = roots;
        delta.enter(entry);
        deadlist::append(self, state, id, &delta.dead)?;
        Ok(roots)
    }

    /// Writes the changed parts of the state, except the space of the pool. Updates the root.
    pub(crate) fn sync_state(&self, state: &mut DatasetTable) -> Result<()> {
        self.sync_entries(state)?;
        history::sync(self, state)?;
        async_free::sync(self, state)?;
        if state.config_dirty {
            self.replace_record(|root| &mut root.config, state.config.encode(), state)?;
            state.config_dirty = false;
        }
        Ok(())
    }

    fn replace_record(
        &self,
        field: impl FnOnce(&mut crate::format::superblock::root::PoolRoot) -> &mut RecordPtr,
        bytes: Vec<u8>,
        state: &mut DatasetTable,
    ) -> Result<()> {
        let new = self.place_record(Class::Meta, bytes)?;
        // Freed with this commit: until it is durable, the last root points to the old record.
        let old = std::mem::replace(field(&mut state.root), new);
        if !old.is_empty() {
            self.free(&old.place);
        }
        Ok(())
    }

    fn sync_entries(&self, state: &mut DatasetTable) -> Result<()> {
        let mut overlay = Overlay::default();
        for id in std::mem::take(&mut state.dirty) {
            let ptr = match state.get(id) {
                Some(entry) => self.place_record(Class::Meta, entry.encode())?,
                None => RecordPtr::EMPTY,
            };
            overlay.put(id, ptr);
        }
        let root = state.root.datasets;
        state.root.datasets = self.update_pool_array(Class::Meta, &root, &overlay)?;
        Ok(())
    }

    /// Writes the bitmaps of the segments that changed, and their entries in the table.
    pub(crate) fn sync_space(&self, state: &mut DatasetTable) -> Result<()> {
        let remap = &self.core.disk.remap;
        let mut freed = remap.free(self, &state.config, self.take_freed())?;
        state.config_dirty |= remap.write(self, &mut state.root, &mut state.config)?;
        let allocated = self.take_rest(&mut freed);
        if state.root.has_checkpoint() && !self.core.space.has_kept() {
            // The checkpoint is the state of the last commit, and the bitmaps are still those of that commit.
            self.core.space.keep_this(state.root.space())?;
        }
        let mut changed = self.core.space.apply(self.txg, &allocated, &freed)?;
        // Not free yet: the last superblock still reaches these extents.
        self.put_freed(freed);
        let mut bitmaps = Overlay::default();
        let mut table = Overlay::default();
        // By number, so that each page of the table is read and written once.
        changed.sort_by_key(|change| change.number);
        debug_assert!(
            changed
                .windows(2)
                .all(|pair| pair[0].number < pair[1].number),
            "each segment is listed once"
        );
        let page_of = |number: u64| number / ENTRIES_PER_PAGE as u64;
        for group in changed.chunk_by(|a, b| page_of(a.number) == page_of(b.number)) {
            let page = page_of(group[0].number);
            let mut entries = self.table_page(&state.root.table, page)?;
            for change in group {
                entries[change.number as usize % ENTRIES_PER_PAGE] = change.entry;
                let ptr = match &change.bitmap {
                    Some(bytes) => self.place_record(Class::System, bytes.clone())?,
                    None => RecordPtr::EMPTY,
                };
                bitmaps.put(change.number, ptr);
            }
            // A page without segments in use is not stored.
            let is_empty = entries
                .iter()
                .all(|entry| *entry == SegmentEntry::default());
            let ptr = if is_empty {
                RecordPtr::EMPTY
            } else {
                self.place_record(Class::System, entries.as_bytes().to_vec())?
            };
            table.put(page, ptr);
        }
        let root = &mut state.root;
        root.bitmaps = self.update_pool_array(Class::System, &root.bitmaps, &bitmaps)?;
        root.table = self.update_pool_array(Class::System, &root.table, &table)?;
        root.features_required |= self.core.features();
        Ok(())
    }

    fn table_page(&self, table: &RecordPtr, page: u64) -> Result<Vec<SegmentEntry>> {
        use zerocopy::FromBytes;
        let disk = &self.core.disk;
        let ptr = crate::storage::array::walk::get(disk, table, page)?;
        let mut entries = vec![SegmentEntry::default(); ENTRIES_PER_PAGE];
        if !ptr.is_empty() {
            let bytes = disk.clear_record(&ptr)?;
            for (entry, chunk) in entries
                .iter_mut()
                .zip(bytes.chunks_exact(size_of::<SegmentEntry>()))
            {
                *entry = SegmentEntry::read_from_bytes(chunk).expect("chunks of its size");
            }
        }
        Ok(entries)
    }
}

/// A dataset whose changes are already in new nodes.
pub(crate) struct SyncedDataset {
    pub(crate) part: CommitDataset,
    pub(crate) roots: [RecordPtr; 2],
    pub(crate) delta: Delta,
}

impl SyncedDataset {
    /// Updates the dataset's entry, with a new seal.
    pub(crate) fn enter(&self, commit: &TxgWriter<'_>, state: &mut DatasetTable) -> Result<()> {
        let CommitDataset { dataset, holder } = &self.part;
        let entry = state.edit(dataset.id)?;
        entry.roots = self.roots;
        entry.sequence = entry.sequence.max(entry.sequence_past).saturating_add(1);
        self.delta.enter(entry);
        dataset.log.lock().enter(commit, entry)?;
        if let Some(holder) = holder {
            entry.set_sealed_guid(None);
            entry.set_waiting_mark(None);
            facts::renew(state, dataset.id, commit.txg)?;
            let entry = state.edit(dataset.id)?;
            entry.seal = holder.seal(&SealInput::of(entry, entry.guid));
        }
        Ok(())
    }
}

/// The changes of a commit to the byte counts of a dataset.
#[derive(Default)]
pub(crate) struct Delta {
    referenced: i64,
    used: i64,
    logical: i64,
    pub(crate) dead: Vec<Dead>,
}

impl Delta {
    fn enter(&self, entry: &mut Entry) {
        // The counts come from a device. A wrong count must not make each commit fail.
        entry.referenced = entry.referenced.saturating_add_signed(self.referenced);
        entry.used = entry.used.saturating_add_signed(self.used);
        entry.logical = entry.logical.saturating_add_signed(self.logical);
    }
}

struct DatasetTarget<'a> {
    commit: &'a TxgWriter<'a>,
    prev_snap_txg: u64,
    /// The array of the dataset that is being written.
    array: ArrayKind,
    delta: Delta,
}

impl<'a> DatasetTarget<'a> {
    fn new(commit: &'a TxgWriter<'a>, prev_snap_txg: u64) -> DatasetTarget<'a> {
        DatasetTarget {
            commit,
            prev_snap_txg,
            array: ArrayKind::Pages,
            delta: Delta::default(),
        }
    }
}

impl UpdateTarget for DatasetTarget<'_> {
    fn born(&mut self, ptr: &RecordPtr) {
        let bytes = ptr.place.allocated() as i64;
        self.delta.referenced += bytes;
        self.delta.used += bytes;
        self.delta.logical += i64::from(ptr.identity.logical_size());
    }

    fn killed(&mut self, ptr: &RecordPtr) -> Result<()> {
        let bytes = ptr.place.allocated() as i64;
        self.delta.referenced -= bytes;
        self.delta.logical -= i64::from(ptr.identity.logical_size());
        if ptr.place.birth() > self.prev_snap_txg {
            // No snapshot has it: it was born after the newest one.
            self.delta.used -= bytes;
            self.commit.free(&ptr.place);
        } else {
            // A snapshot still needs it.
            self.delta.dead.push(Dead::new(ptr));
        }
        Ok(())
    }

    fn place_node(&mut self, node: ArrayNode, level: u8) -> Result<RecordPtr> {
        match self.array {
            ArrayKind::Pages => self.commit.place_node(Class::Meta, node, level),
            ArrayKind::Data => self.commit.place_summed_node(node, level),
        }
    }
}
