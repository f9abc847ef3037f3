//! An open dataset: its two arrays, and the part of its key holder in a commit.

mod space;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::engine::context::{PoolContext, TxgHold};
use crate::engine::datasets::placed_record::PlacedRecord;
use crate::engine::dedup;
use crate::engine::log::Ring;
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::datasets::past_seal::PastSeal;
use crate::format::datasets::seal_input::SealInput;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::node::NODE_BYTES;
use crate::format::records::pointer::{RecordPtr, SLOT_LIMIT};
use crate::storage::array::{Overlay, walk};
use crate::storage::cache_device::SecondaryCache;
use crate::storage::reader::Keep;
use crate::storage::space::SpaceReservation;
use crate::storage::writer::reserve::DEAD_BYTES;
use crate::storage::writer::txg::TxgWriter;

/// The functions of the key holder of an open dataset that a commit calls.
pub trait DatasetHooks: Send + Sync {
    /// Freezes the changes of the closing transaction group. No other thread runs in the dataset meanwhile, so this
    /// must be quick.
    fn freeze(&self, txg: u64);

    /// Puts the frozen changes into the arrays, through [`TxgWriter::put`].
    ///
    /// # Errors
    /// [`Error::StreamSealer`](crate::Error::Sealing) if the key holder cannot seal; as [`TxgWriter::put`]. Either
    /// suspends the pool.
    fn sync(&self, commit: &TxgWriter<'_>) -> Result<()>;

    /// Keeps the seals of earlier states, oldest first, in the metadata of the state that the commit makes. Called
    /// after [`DatasetHooks::sync`], if the state changes.
    ///
    /// # Errors
    /// As [`DatasetHooks::sync`].
    fn keep_seals(&self, commit: &TxgWriter<'_>, past: &[PastSeal]) -> Result<()> {
        let _ = (commit, past);
        Ok(())
    }

    /// The seal over the new roots.
    fn seal(&self, input: &SealInput) -> [u8; 32];

    /// The records that were put are written: the arrays return them from now on.
    fn synced(&self, txg: u64);
}

/// An open dataset or snapshot. Its arrays can be read; those of a dataset can also be changed.
pub struct OpenDataset {
    pub(crate) context: Arc<PoolContext>,
    pub(crate) id: u64,
    guid: u64,
    writable: bool,
    /// True if caches keep its nodes, see [`OpenDataset::set_keeping`].
    keeps_nodes: AtomicBool,
    secondary: AtomicU8,
    arrays: [RwLock<ArrayState>; 2],
    pub(crate) log: Mutex<Ring>,
    hooks: Mutex<Option<Weak<dyn DatasetHooks>>>,
    /// True if it changed since a commit visited it.
    is_changed: AtomicBool,
}

struct ArrayState {
    /// The root of the last commit.
    root: RecordPtr,
    /// Changes of the transaction group that is being written.
    syncing: Arc<Overlay>,
    /// Changes of the open transaction group.
    open: Overlay,
    /// Free space that is reserved for the nodes of these changes.
    syncing_reserved: SpaceReservation,
    open_reserved: SpaceReservation,
}

impl OpenDataset {
    pub(crate) fn new(context: Arc<PoolContext>, entry: &Entry, writable: bool) -> OpenDataset {
        let array = |root| {
            RwLock::new(ArrayState {
                root,
                syncing: Arc::default(),
                open: Overlay::default(),
                syncing_reserved: context.space.nothing(),
                open_reserved: context.space.nothing(),
            })
        };
        let arrays = entry.roots.map(array);
        OpenDataset {
            context,
            id: entry.id,
            guid: entry.guid,
            writable,
            keeps_nodes: AtomicBool::new(true),
            secondary: AtomicU8::new(SecondaryCache::default() as u8),
            arrays,
            log: Mutex::new(Ring::new(&entry.log)),
            hooks: Mutex::new(None),
            is_changed: AtomicBool::new(false),
        }
    }

    /// Notes that the dataset changes in the open transaction group. A commit visits only datasets that changed.
    pub fn mark_changed(&self, hold: &TxgHold<'_>) {
        self.need_visit();
        hold.mark_dirty();
    }

    /// Makes the next commit visit the dataset. The commit finds all changes made before this call.
    pub(crate) fn need_visit(&self) {
        if !self.is_changed.load(Ordering::Acquire) && !self.is_changed.swap(true, Ordering::AcqRel)
        {
            self.context.to_visit.lock().insert(self.id);
        }
    }

    /// Returns the id of the dataset.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the guid of the dataset.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Returns whether the dataset can be changed.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Sets what caches keep after a read: nodes in memory, and records or nodes on cache devices.
    pub fn set_keeping(&self, nodes: bool, secondary: SecondaryCache) {
        self.keeps_nodes.store(nodes, Ordering::Relaxed);
        self.secondary.store(secondary as u8, Ordering::Relaxed);
    }

    /// Returns what caches keep of metadata, or of the other data of the dataset.
    pub(crate) fn keep(&self, is_metadata: bool) -> Keep {
        let number = self.secondary.load(Ordering::Relaxed);
        Keep {
            nodes: self.keeps_nodes.load(Ordering::Relaxed),
            cached: match SecondaryCache::from_number(number) {
                SecondaryCache::All => true,
                SecondaryCache::Metadata => is_metadata,
                SecondaryCache::None => false,
            },
        }
    }

    /// Sets the hooks that commits call. The next commit calls them even if nothing changed.
    pub fn attach(&self, hooks: Weak<dyn DatasetHooks>) {
        *self.hooks.lock() = Some(hooks);
        self.need_visit();
    }

    /// Adds the dataset to a commit, unless its key holder is gone. Then its changes cannot be sealed, and are
    /// dropped with the open dataset.
    pub(crate) fn take_part(self: &Arc<Self>) -> Option<CommitDataset> {
        let holder = match &*self.hooks.lock() {
            Some(holder) => Some(holder.upgrade()?),
            None => None,
        };
        Some(CommitDataset {
            dataset: Arc::clone(self),
            holder,
        })
    }

    /// Returns the number of levels of nodes of an array.
    pub(crate) fn height(&self, array: ArrayKind) -> u8 {
        self.array(array).read().root.level()
    }

    /// The record in a slot, or the empty pointer.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Inconsistent`](crate::Error::Inconsistent) if a
    /// node cannot be read; [`Error::Store`](crate::Error::Store) if a device fails.
    pub fn get(&self, array: ArrayKind, slot: u64) -> Result<RecordPtr> {
        loop {
            let root = {
                let state = self.array(array).read();
                if let Some(ptr) = state.changed(slot) {
                    return Ok(ptr);
                }
                state.root
            };
            let node = |ptr: &RecordPtr, level| {
                let keep = self.keep(true);
                self.context.disk.node_kept(ptr, level, slot, keep)
            };
            // Without the lock: a commit may free what is below this root. Then the read fails, and begins again.
            match walk::get_by(&root, slot, node) {
                Err(_) if self.moved_on(array, &root) => {}
                result => return result,
            }
        }
    }

    /// The first slot in a range that holds a record.
    ///
    /// # Errors
    /// As [`OpenDataset::get`].
    pub fn next(&self, array: ArrayKind, from: u64, before: u64) -> Result<Option<u64>> {
        let mut from = from;
        while from < before {
            let (root, changed) = {
                let state = self.array(array).read();
                let overlays = [state.syncing.as_ref(), &state.open];
                let changed = overlays.iter().filter_map(|o| o.next(from, before));
                (state.root, changed.map(|(slot, _)| slot).min())
            };
            let stored = match walk::next(&self.context.disk, &root, from) {
                Err(_) if self.moved_on(array, &root) => continue,
                result => result?.map(|(slot, _)| slot),
            };
            match changed.into_iter().chain(stored).min() {
                Some(slot) if slot < before => {
                    if !self.get(array, slot)?.is_empty() {
                        return Ok(Some(slot));
                    }
                    // Emptied in one of the groups that are not durable yet.
                    from = slot + 1;
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reads the record in a slot into `buf`, one copy after the other until `accept` accepts one. Returns its
    /// pointer, or `None` if the slot is empty.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if `accept` accepts no copy of the record; as
    /// [`OpenDataset::get`].
    pub fn read(
        &self,
        array: ArrayKind,
        slot: u64,
        buf: &mut Vec<u8>,
        accept: &mut dyn FnMut(&RecordPtr, &[u8]) -> bool,
    ) -> Result<Option<RecordPtr>> {
        let ptr = self.get(array, slot)?;
        self.read_found(array, slot, ptr, buf, accept)
    }

    /// Does the same as [`OpenDataset::read`], for a slot that had `ptr` a moment ago.
    ///
    /// # Errors
    /// The record is damaged, or a device failed, and the slot still holds this record.
    pub fn read_found(
        &self,
        array: ArrayKind,
        slot: u64,
        mut ptr: RecordPtr,
        buf: &mut Vec<u8>,
        accept: &mut dyn FnMut(&RecordPtr, &[u8]) -> bool,
    ) -> Result<Option<RecordPtr>> {
        while !ptr.is_empty() {
            let is_cached = self.keep(array == ArrayKind::Pages).cached;
            let mut accept = |bytes: &[u8]| accept(&ptr, bytes);
            let disk = &self.context.disk;
            match disk.record_kept(&ptr, Some(slot), buf, &mut accept, is_cached) {
                Ok(()) => return Ok(Some(ptr)),
                Err(error) => match self.get(array, slot)? {
                    same if same == ptr => return Err(error),
                    newer => ptr = newer,
                },
            }
        }
        Ok(None)
    }

    /// Returns whether the bytes of a record match its pointer, as far as this can be checked without a key.
    pub fn is_undamaged(&self, ptr: &RecordPtr, bytes: &[u8]) -> bool {
        ptr.names(bytes)
    }

    /// Returns whether the array has a newer root than `root`. Space below an old root may be freed and reused.
    pub(crate) fn moved_on(&self, array: ArrayKind, root: &RecordPtr) -> bool {
        self.array(array).read().root != *root
    }

    fn array(&self, array: ArrayKind) -> &RwLock<ArrayState> {
        &self.arrays[array as usize]
    }

    /// Puts a record into a slot in the open transaction group.
    pub fn put(
        &self,
        hold: &TxgHold<'_>,
        array: ArrayKind,
        slot: u64,
        placed: PlacedRecord,
    ) -> RecordPtr {
        self.change(hold, array, slot, |txg| placed.into_ptr(txg))
    }

    /// Empties a slot in the open transaction group.
    pub fn punch(&self, hold: &TxgHold<'_>, array: ArrayKind, slot: u64) {
        self.change(hold, array, slot, |_| RecordPtr::EMPTY);
    }

    fn change(
        &self,
        hold: &TxgHold<'_>,
        array: ArrayKind,
        slot: u64,
        new: impl FnOnce(u64) -> RecordPtr,
    ) -> RecordPtr {
        assert!(self.writable && slot < SLOT_LIMIT);
        self.mark_changed(hold);
        let new = new(hold.txg());
        // The group may still replace it. Then no tree ever has the first record, and it is freed with the group.
        let replaced = self.array(array).write().put_open(slot, new);
        self.forget(hold.txg(), replaced);
        new
    }

    /// Frees a record that was replaced in its own transaction group: it was never in the tree.
    fn forget(&self, txg: u64, replaced: Option<RecordPtr>) {
        if let Some(ptr) = replaced.filter(|ptr| !ptr.is_empty()) {
            self.context.free_later(txg, &ptr.place);
        }
    }

    fn freeze(&self) {
        for array in &self.arrays {
            let mut state = array.write();
            // The last group is durable: a pool whose commit failed closes no other group.
            debug_assert!(state.syncing.is_empty());
            state.syncing = Arc::new(std::mem::take(&mut state.open));
            let nothing = self.context.space.nothing();
            state.syncing_reserved = std::mem::replace(&mut state.open_reserved, nothing);
        }
        self.freeze_log();
    }

    /// The records put since the last commit.
    pub(crate) fn uncommitted(&self) -> Vec<(ArrayKind, RecordPtr)> {
        let of = |array: ArrayKind| {
            let state = self.array(array).read();
            let records = [state.syncing.records(), state.open.records()].concat();
            records.into_iter().map(move |ptr| (array, ptr))
        };
        ArrayKind::ALL.into_iter().flat_map(of).collect()
    }

    pub(crate) fn put_syncing(&self, txg: u64, array: ArrayKind, slot: u64, ptr: RecordPtr) {
        let replaced = Arc::make_mut(&mut self.array(array).write().syncing).put(slot, ptr);
        self.forget(txg, replaced);
    }

    /// The bytes of the records in a range of slots before compression.
    ///
    /// # Errors
    /// As [`OpenDataset::get`].
    pub fn logical_bytes(&self, array: ArrayKind, from: u64, before: u64) -> Result<u64> {
        let mut bytes = 0;
        let mut at = from;
        while let Some(slot) = self.next(array, at, before)? {
            bytes += u64::from(self.get(array, slot)?.identity.logical_size());
            at = slot + 1;
        }
        Ok(bytes)
    }

    /// The root of an array, and the slots of these ranges that changed since that root, in ascending order. Each slot
    /// has the units that its record takes. `None` in place of the slots if there are more than `most`.
    pub(crate) fn changes_in(
        &self,
        array: ArrayKind,
        slots: &[Range<u64>],
        most: usize,
    ) -> (RecordPtr, Option<Vec<(u64, u64)>>) {
        let state = self.array(array).read();
        let (open, syncing) = (&state.open, &state.syncing);
        let of = |range: &Range<u64>| {
            let earlier = syncing.range(range.start, range.end);
            let earlier = earlier.filter(|(slot, _)| open.get(*slot).is_none());
            let all = open.range(range.start, range.end).chain(earlier);
            all.map(|(slot, ptr)| (slot, ptr.stored().unwrap_or(0)))
        };
        let mut changed: Vec<_> = slots.iter().flat_map(of).take(most + 1).collect();
        let root = state.root;
        drop(state);
        // Each range gives its open changes first, then the earlier ones.
        changed.sort_unstable();
        (root, (changed.len() <= most).then_some(changed))
    }

    /// The root of an array, and its changes in the group that is being written.
    pub(crate) fn syncing(&self, array: ArrayKind) -> (RecordPtr, Arc<Overlay>) {
        let state = self.array(array).read();
        (state.root, Arc::clone(&state.syncing))
    }

    /// Frees the space reserved for nodes: the transaction group has allocated all of its space.
    pub(crate) fn release_reserved(&self) {
        for array in &self.arrays {
            array.write().syncing_reserved.shrink(0);
        }
    }

    /// Called when the transaction group is durable: its changes are now in the tree.
    pub(crate) fn on_durable(&self, roots: &[RecordPtr; 2]) {
        for (array, root) in self.arrays.iter().zip(roots) {
            let mut state = array.write();
            // Together, under one lock: a reader sees the change in the overlay or in the tree.
            state.root = *root;
            state.syncing = Arc::default();
            state.syncing_reserved.shrink(0);
        }
        self.log.lock().on_durable();
    }
}

/// A dataset in a commit, with its key holder. The commit keeps the holder until its end: no other can seal the
/// records that it put.
#[derive(Clone)]
pub(crate) struct CommitDataset {
    pub(crate) dataset: Arc<OpenDataset>,
    pub(crate) holder: Option<Arc<dyn DatasetHooks>>,
}

impl CommitDataset {
    /// Freezes the changes of the transaction group when it closes.
    pub(crate) fn freeze(&self, txg: u64) {
        let dataset = &self.dataset;
        // Cleared before the freeze: a change after it enters the dataset for the next commit.
        let changed = dataset.is_changed.swap(false, Ordering::AcqRel);
        dataset.freeze();
        if let Some(holder) = &self.holder {
            holder.freeze(txg);
        }
        // In one more visit the holder frees the memory that it keeps until this group is written.
        if changed || !dataset.log.lock().is_quiet() {
            dataset.context.to_visit.lock().insert(dataset.id);
        }
    }
}

/// Drops the records put since the last commit, and frees their space.
impl Drop for OpenDataset {
    fn drop(&mut self) {
        for array in &mut self.arrays {
            let records = array.get_mut().open.records();
            if !records.is_empty() {
                self.context.forget_open(&records);
            }
        }
        self.context.closed.notify_all();
    }
}

impl ArrayState {
    /// Puts a record into a slot in the open transaction group, and reserves space for the nodes above it.
    fn put_open(&mut self, slot: u64, ptr: RecordPtr) -> Option<RecordPtr> {
        let nodes = self.open.new_nodes(slot, self.root.level());
        let table = if ptr.place.is_shared() {
            dedup::SPACE
        } else {
            0
        };
        self.open_reserved
            .grow(nodes * NODE_BYTES + table + DEAD_BYTES);
        self.open.put(slot, ptr)
    }

    fn changed(&self, slot: u64) -> Option<RecordPtr> {
        self.open.get(slot).or_else(|| self.syncing.get(slot))
    }
}
