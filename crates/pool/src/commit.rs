//! A commit: making a transaction group durable.
//!
//! The order is the promise. Records and nodes go to places that nothing durable points to; they and
//! the new key blocks are flushed; then the superblock that names the new roots is written and
//! flushed; and only then may what the group freed be used again. A power cut at any moment leaves
//! either the old superblock and everything below it, or the new one and everything below it.

use std::sync::Arc;

use parking_lot::Mutex;
use store::SegmentId;
use zerocopy::IntoBytes;

use crate::array::Overlay;
use crate::array::update::{Target, relevel, update};
use crate::batch::{Batch, Piece};
use crate::deadlist::{self, DeadEntry};
use crate::dedup::Share;
use crate::error::Result;
use crate::history;
use crate::layout::{Identity, Node, Place, RecordPtr, checksum};
use crate::membership;
use crate::open::{ArrayKind, OpenDataset, Part, Placed, SealInput};
use crate::pool::Shared;
use crate::reap;
use crate::room;
use crate::space::{Class, ENTRIES_PER_PAGE, Extent, Reservation, ReserveFor, SegmentEntry};
use crate::state::State;
use crate::wire::pad;

/// The pool's own records and all nodes are kept twice.
pub(crate) const META_COPIES: usize = 2;

/// What an entry takes besides long texts: its record, and nodes of the dataset table.
const ENTRY_ROOM: u64 = 32 << 10;

/// A commit under way.
pub struct Commit<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) txg: u64,
    batch: Batch,
    tally: Mutex<Tally>,
    /// Key blocks that the task has written, which nothing durable names yet.
    key_blocks: Mutex<Vec<u32>>,
}

/// What a commit has allocated and freed so far.
#[derive(Default)]
struct Tally {
    allocated: Vec<Extent>,
    freed: Vec<Extent>,
    system_freed: Vec<Extent>,
    /// Pointers to shared records that are gone.
    unshared: Vec<Share>,
}

/// Where a task may take a commit back to.
pub(crate) struct Mark {
    allocated: usize,
    freed: usize,
    unshared: usize,
}

impl<'a> Commit<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>, txg: u64) -> Commit<'a> {
        Commit {
            shared,
            txg,
            batch: Batch::default(),
            tally: Mutex::default(),
            key_blocks: Mutex::default(),
        }
    }

    /// The transaction group that this makes durable.
    pub fn txg(&self) -> u64 {
        self.txg
    }

    /// Puts a record into a slot of an open dataset; the commit writes it with others.
    pub fn put(
        &self,
        dataset: &OpenDataset,
        array: ArrayKind,
        slot: u64,
        identity: Identity,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let placed = dataset.allocate(array, identity, bytes.len(), checksum(&bytes))?;
        self.shared
            .disk
            .hold_unwritten_map(&placed.place(), placed.allotted());
        let writes = placed.allotted().writes(&Piece::Bytes(Arc::new(bytes)));
        self.write_later(writes)?;
        self.put_placed(dataset, array, slot, placed);
        Ok(())
    }

    /// Empties a slot of an open dataset.
    pub fn punch(&self, dataset: &OpenDataset, array: ArrayKind, slot: u64) {
        dataset.put_syncing(self.txg, array, slot, RecordPtr::EMPTY);
    }

    /// The record in a slot of an open dataset as this commit will leave it, as far as it knows.
    pub fn current(&self, dataset: &OpenDataset, array: ArrayKind, slot: u64) -> Result<RecordPtr> {
        let (root, changed) = dataset.syncing(array);
        match changed.get(slot) {
            Some(ptr) => Ok(ptr),
            None => crate::array::walk::get(&self.shared.disk, &root, slot),
        }
    }

    /// Puts a record that is written already into a slot of an open dataset.
    pub fn put_placed(
        &self,
        dataset: &OpenDataset,
        array: ArrayKind,
        slot: u64,
        placed: Placed,
    ) -> RecordPtr {
        let ptr = placed.into_ptr(self.txg);
        dataset.put_syncing(self.txg, array, slot, ptr);
        ptr
    }

    /// Frees a place once the commit is durable.
    pub(crate) fn free(&self, place: &Place) {
        if let Some(share) = place.share() {
            return self.tally.lock().unshared.push(share);
        }
        let extents = self.shared.disk.extents_to_free(place);
        self.tally.lock().freed.extend(extents);
    }

    /// Frees places that hold no records.
    pub(crate) fn free_extents(&self, extents: impl IntoIterator<Item = Extent>) {
        self.tally.lock().freed.extend(extents);
    }

    /// Counts a place that holds no record.
    pub(crate) fn note_allocated(&self, extent: Extent) {
        self.tally.lock().allocated.push(extent);
    }

    /// Writes one of the pool's own records, padded to whole units.
    pub(crate) fn place_record(&self, class: Class, bytes: Vec<u8>) -> Result<RecordPtr> {
        let bytes = pad(bytes);
        let sum = checksum(&bytes);
        let identity = Identity::record([0; 24], sum, 0, 0, 0, bytes.len() as u32);
        self.place_piece(class, sum, identity, Piece::Bytes(Arc::new(bytes)))
    }

    fn place_node(&self, class: Class, node: Node, level: u8) -> Result<RecordPtr> {
        let node = Arc::new(node);
        let sum = checksum(node.as_bytes());
        let identity = node.identity(level);
        let ptr = self.place_piece(class, sum, identity, Piece::Node(Arc::clone(&node)))?;
        self.shared.disk.remember(&ptr, node);
        Ok(ptr)
    }

    fn place_piece(
        &self,
        class: Class,
        sum: [u8; 16],
        identity: Identity,
        piece: Piece,
    ) -> Result<RecordPtr> {
        let allotted = room::allot(self.shared, class, piece.len(), META_COPIES)?;
        let place = allotted.place(self.txg, sum);
        if class != Class::System {
            self.tally.lock().allocated.extend(allotted.extents());
        }
        let disk = &self.shared.disk;
        disk.hold_unwritten_map(&place, &allotted);
        disk.hold_unwritten(sum, piece.clone());
        self.write_later(allotted.writes(&piece))?;
        Ok(RecordPtr { place, identity })
    }

    fn write_later(&self, writes: Vec<(SegmentId, u32, Piece)>) -> Result<()> {
        let disk = &self.shared.disk;
        if self.batch.add(disk.store.as_ref(), writes)? {
            disk.release_unwritten();
        }
        Ok(())
    }

    /// Changes one of the pool's own arrays.
    pub(crate) fn update_pool_array(
        &self,
        class: Class,
        root: &RecordPtr,
        overlay: &Overlay,
    ) -> Result<RecordPtr> {
        let mut target = PoolTarget {
            commit: self,
            class,
        };
        update(&self.shared.disk, root, &overlay.edits(), &mut target)
    }

    /// What has been allocated and freed up to now.
    pub(crate) fn mark(&self) -> Mark {
        let tally = self.tally.lock();
        Mark {
            allocated: tally.allocated.len(),
            freed: tally.freed.len(),
            unshared: tally.unshared.len(),
        }
    }

    /// Undoes what a task did since a mark: what it freed is not free, what it allocated is.
    pub(crate) fn undo_since(&self, mark: &Mark) {
        let mut tally = self.tally.lock();
        tally.freed.truncate(mark.freed);
        tally.unshared.truncate(mark.unshared);
        let allocated = tally.allocated[mark.allocated..].to_vec();
        tally.freed.extend(allocated);
    }

    /// The pointers to shared records that the transaction group has freed.
    pub(crate) fn take_unshared(&self) -> Vec<Share> {
        let mut all = std::mem::take(&mut self.tally.lock().unshared);
        all.extend(self.shared.take_unshared(self.txg));
        all
    }

    /// Remembers a key block that is about to be written.
    pub(crate) fn note_key_block(&self, block: u32) {
        self.key_blocks.lock().push(block);
    }

    /// The key blocks of a task that failed.
    pub(crate) fn take_key_blocks(&self) -> Vec<u32> {
        std::mem::take(&mut *self.key_blocks.lock())
    }

    /// Sets room aside for new entries of the dataset table, with so many bytes of texts in all.
    pub(crate) fn room_for_entries(&self, count: usize, texts: usize) -> Result<Reservation> {
        let bytes = count as u64 * ENTRY_ROOM + META_COPIES as u64 * texts as u64;
        self.shared.space.reserve(bytes, ReserveFor::Freeing)
    }

    /// Has every key holder put its changes into the arrays, and works these into new nodes.
    pub(crate) fn sync_datasets(&self, parts: &[Part]) -> Result<Vec<Synced>> {
        let mut all = Vec::new();
        for part in parts.iter().filter(|part| part.dataset.is_writable()) {
            let Part { dataset, holder } = part;
            if let Some(holder) = holder {
                holder.sync(self)?;
            }
            let (pages_root, pages) = dataset.syncing(ArrayKind::Pages);
            let (data_root, data) = dataset.syncing(ArrayKind::Data);
            if pages.is_empty() && data.is_empty() && !dataset.log.lock().wants_commit() {
                continue;
            }
            let prev_snap_txg = self.shared.state.read().entry(dataset.id)?.prev_snap_txg;
            let mut target = DatasetTarget::new(self, prev_snap_txg);
            let disk = &self.shared.disk;
            let roots = [
                update(disk, &pages_root, &pages.edits(), &mut target)?,
                update(disk, &data_root, &data.edits(), &mut target)?,
            ];
            all.push(Synced {
                part: part.clone(),
                roots,
                delta: target.delta,
            });
        }
        Ok(all)
    }

    /// Gives the arrays of a dataset, as this commit leaves them, roots of these levels, and returns them.
    pub(crate) fn relevel(
        &self,
        state: &mut State,
        id: u64,
        levels: [u8; 2],
    ) -> Result<[RecordPtr; 2]> {
        let entry = Arc::clone(state.entry(id)?);
        let mut target = DatasetTarget::new(self, entry.prev_snap_txg);
        let mut roots = entry.roots;
        for (root, level) in roots.iter_mut().zip(levels) {
            *root = relevel(&self.shared.disk, root, level, &mut target)?;
        }
        let delta = target.delta;
        let entry = state.edit(id)?;
        entry.roots = roots;
        delta.enter(entry);
        deadlist::append(self, state, id, &delta.dead)?;
        Ok(roots)
    }

    /// Writes what changed in the state itself, and returns the new root of the pool.
    pub(crate) fn sync_state(&self, state: &mut State) -> Result<()> {
        self.sync_entries(state)?;
        history::sync(self, state)?;
        reap::sync(self, state)?;
        if state.config_dirty {
            self.replace_record(|root| &mut root.config, state.config.encode(), state)?;
            state.config_dirty = false;
        }
        Ok(())
    }

    fn replace_record(
        &self,
        field: impl FnOnce(&mut crate::root::PoolRoot) -> &mut RecordPtr,
        bytes: Vec<u8>,
        state: &mut State,
    ) -> Result<()> {
        let new = self.place_record(Class::Meta, bytes)?;
        let old = std::mem::replace(field(&mut state.root), new);
        if !old.is_empty() {
            self.free(&old.place);
        }
        Ok(())
    }

    fn sync_entries(&self, state: &mut State) -> Result<()> {
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
    pub(crate) fn sync_space(&self, state: &mut State) -> Result<()> {
        let mut freed = std::mem::take(&mut self.tally.lock().freed);
        freed.extend(self.shared.take_freed(self.txg));
        let remap = &self.shared.disk.remap;
        let mut freed = remap.free(state, freed)?;
        remap.write(self, state)?;
        let allocated = {
            let mut tally = self.tally.lock();
            freed.append(&mut tally.freed);
            tally.allocated.clone()
        };
        let mut changed = self.shared.space.apply(self.txg, &allocated, &freed)?;
        self.tally.lock().freed = freed;
        let mut bitmaps = Overlay::default();
        let mut table = Overlay::default();
        changed.sort_by_key(|change| change.number);
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
        root.features_required |= self.shared.features();
        Ok(())
    }

    fn table_page(&self, table: &RecordPtr, page: u64) -> Result<Vec<SegmentEntry>> {
        use zerocopy::FromBytes;
        let disk = &self.shared.disk;
        let ptr = crate::array::walk::get(disk, table, page)?;
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

    /// Writes everything that waits and makes the state durable.
    pub(crate) fn finish(&self, state: &State) -> Result<()> {
        let store = &self.shared.disk.store;
        self.batch.write(store.as_ref())?;
        self.shared.disk.release_unwritten();
        self.shared.disk.release_unwritten_maps();
        store.flush()?;
        let mut root = state.root.clone();
        if state.config.is_redundant {
            root.missed = membership::missed(&state.config, store.as_ref());
        }
        store.write_superblock(self.txg, root.as_bytes())?;
        Ok(store.flush()?)
    }

    /// What may be used again now that the commit is durable.
    pub(crate) fn into_freed(self) -> Vec<Extent> {
        let tally = self.tally.into_inner();
        let mut freed = tally.freed;
        freed.extend(tally.system_freed);
        freed
    }
}

/// A dataset whose changes are in new nodes.
pub(crate) struct Synced {
    pub(crate) part: Part,
    pub(crate) roots: [RecordPtr; 2],
    pub(crate) delta: Delta,
}

impl Synced {
    /// Brings the dataset's entry up to date, with a new seal.
    pub(crate) fn enter(&self, commit: &Commit<'_>, state: &mut State) -> Result<()> {
        let Part { dataset, holder } = &self.part;
        let entry = state.edit(dataset.id)?;
        entry.roots = self.roots;
        entry.sequence = entry.sequence.max(entry.sequence_past).saturating_add(1);
        self.delta.enter(entry);
        dataset.log.lock().enter(commit, entry)?;
        if let Some(holder) = holder {
            entry.set_sealed_guid(None);
            entry.seal = holder.seal(&SealInput::of(entry, entry.guid));
        }
        Ok(())
    }
}

/// How a commit changes the counts of a dataset.
#[derive(Default)]
pub(crate) struct Delta {
    referenced: i64,
    used: i64,
    logical: i64,
    pub(crate) dead: Vec<DeadEntry>,
}

impl Delta {
    fn enter(&self, entry: &mut crate::entry::Entry) {
        entry.referenced = entry.referenced.saturating_add_signed(self.referenced);
        entry.used = entry.used.saturating_add_signed(self.used);
        entry.logical = entry.logical.saturating_add_signed(self.logical);
    }
}

struct DatasetTarget<'a> {
    commit: &'a Commit<'a>,
    prev_snap_txg: u64,
    delta: Delta,
}

impl<'a> DatasetTarget<'a> {
    fn new(commit: &'a Commit<'a>, prev_snap_txg: u64) -> DatasetTarget<'a> {
        DatasetTarget {
            commit,
            prev_snap_txg,
            delta: Delta::default(),
        }
    }
}

impl Target for DatasetTarget<'_> {
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
            self.delta.used -= bytes;
            self.commit.free(&ptr.place);
        } else {
            self.delta.dead.push(DeadEntry::new(ptr));
        }
        Ok(())
    }

    fn place_node(&mut self, node: Node, level: u8) -> Result<RecordPtr> {
        self.commit.place_node(Class::Meta, node, level)
    }
}

/// The pool's own arrays have no snapshots.
struct PoolTarget<'a> {
    commit: &'a Commit<'a>,
    class: Class,
}

impl Target for PoolTarget<'_> {
    fn born(&mut self, _: &RecordPtr) {}

    fn killed(&mut self, ptr: &RecordPtr) -> Result<()> {
        if self.class == Class::System {
            let mut tally = self.commit.tally.lock();
            tally.system_freed.extend(Extent::of_whole(&ptr.place));
        } else {
            self.commit.free(&ptr.place);
        }
        Ok(())
    }

    fn place_node(&mut self, node: Node, level: u8) -> Result<RecordPtr> {
        self.commit.place_node(self.class, node, level)
    }
}
