//! The writer of a commit: allocates its records and nodes, and counts what is added and freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use store::SegmentId;
use zerocopy::IntoBytes;

use crate::error::Result;
use crate::format::codec::pad;
use crate::format::records::extent::{Class, StoredExtent};
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::{
    Addr, RecordIdentity, RecordLocation, RecordPtr, ShareId, checksum,
};
use crate::storage::array::Overlay;
use crate::storage::array::update::{UpdateTarget, update};
use crate::storage::core::Core;
use crate::storage::reader::lost_map;
use crate::storage::space::{ReserveFor, SpaceReservation};
use crate::storage::writer::batch::{BatchPiece, WriteBatch};
use crate::storage::writer::reserve::allot;

/// The pool's own records and all nodes are kept twice.
pub(crate) const META_COPIES: usize = 2;

/// The bytes that an entry takes without long texts: its record, and nodes of the dataset table.
const ENTRY_SPACE: u64 = 32 << 10;

/// A running commit.
pub struct TxgWriter<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) txg: u64,
    batch: WriteBatch,
    tally: Mutex<ExtentTally>,
    /// Key blocks that the task has written. Nothing durable names them yet.
    key_blocks: Mutex<Vec<u32>>,
    /// True if space is not freed later when a device fails to read the page of the remap table that names it.
    gives_up: AtomicBool,
}

/// The extents that a commit has allocated and freed so far.
#[derive(Default)]
struct ExtentTally {
    allocated: Vec<StoredExtent>,
    freed: Vec<StoredExtent>,
    system_freed: Vec<StoredExtent>,
    /// Pointers to shared records that are gone.
    unshared: Vec<ShareId>,
    /// Places to free later, because a device failed to read the list of their units.
    unread: Vec<RecordLocation>,
}

/// A state of a commit that a failed task goes back to.
pub(crate) struct Mark {
    allocated: usize,
    freed: usize,
    unshared: usize,
    unread: usize,
}

impl<'a> TxgWriter<'a> {
    pub(crate) fn new(core: &'a Arc<Core>, txg: u64) -> TxgWriter<'a> {
        TxgWriter {
            core,
            txg,
            batch: WriteBatch::default(),
            tally: Mutex::default(),
            key_blocks: Mutex::default(),
            gives_up: AtomicBool::new(false),
        }
    }

    /// The transaction group that the commit makes durable.
    pub fn txg(&self) -> u64 {
        self.txg
    }

    /// Frees a place once the commit is durable.
    pub(crate) fn free(&self, place: &RecordLocation) {
        if let Some(share) = place.share() {
            return self.tally.lock().unshared.push(share);
        }
        match self.core.disk.extents_to_free(place) {
            Ok(extents) => self.tally.lock().freed.extend(extents),
            Err(error) => {
                tracing::warn!(%error, "a device failed to read a gang map; its record is freed later");
                self.tally.lock().unread.push(*place);
            }
        }
    }

    /// Does the same as [`TxgWriter::free`], but if a device fails, the space is lost and not freed later.
    pub(crate) fn free_now(&self, place: &RecordLocation) {
        if place.is_shared() {
            return self.free(place);
        }
        let extents = self.core.disk.extents_to_free(place);
        let extents = extents.unwrap_or_else(|error| lost_map(place, &error));
        self.tally.lock().freed.extend(extents);
    }

    /// From now on the commit gives up space of removed groups if a device fails to read a page of the remap table.
    pub(crate) fn set_gives_up(&self) {
        self.gives_up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Relaxed)
    }

    /// The places that could not be freed, of this commit up to now and of the last one.
    pub(crate) fn take_unread(&self) -> Vec<RecordLocation> {
        self.free_group();
        let mut all = std::mem::take(&mut *self.core.unread.lock());
        all.append(&mut self.tally.lock().unread);
        all
    }

    /// Frees places that hold no records.
    pub(crate) fn free_extents(&self, extents: impl IntoIterator<Item = StoredExtent>) {
        self.tally.lock().freed.extend(extents);
    }

    /// Counts a place that holds no record.
    pub(crate) fn note_allocated(&self, extent: StoredExtent) {
        self.tally.lock().allocated.push(extent);
    }

    /// Writes one of the pool's own records, padded to whole units.
    pub(crate) fn place_record(&self, class: Class, bytes: Vec<u8>) -> Result<RecordPtr> {
        let bytes = pad(bytes);
        let sum = checksum(&bytes);
        let identity = RecordIdentity::record([0; 24], sum, 0, 0, 0, bytes.len() as u32);
        self.place_piece(class, sum, identity, BatchPiece::Bytes(Arc::new(bytes)))
    }

    pub(crate) fn place_node(&self, class: Class, node: ArrayNode, level: u8) -> Result<RecordPtr> {
        let node = Arc::new(node);
        let sum = checksum(node.as_bytes());
        let identity = node.identity(level);
        let ptr = self.place_piece(class, sum, identity, BatchPiece::Node(Arc::clone(&node)))?;
        self.core.disk.remember(&ptr, node);
        Ok(ptr)
    }

    /// Writes a node of an array of contents. Its pointer gets the space that the records below take.
    pub(crate) fn place_summed_node(&self, node: ArrayNode, level: u8) -> Result<RecordPtr> {
        let stored = node.stored();
        let mut ptr = self.place_node(Class::Meta, node, level)?;
        ptr.place = ptr.place.with_stored(stored);
        self.core.note_stored_sums();
        Ok(ptr)
    }

    fn place_piece(
        &self,
        class: Class,
        sum: [u8; 16],
        identity: RecordIdentity,
        piece: BatchPiece,
    ) -> Result<RecordPtr> {
        let allotted = allot(self.core, class, piece.len(), META_COPIES)?;
        let place = allotted.place(self.txg, sum);
        // System segments have no bitmaps: an import finds their records from the roots.
        if class != Class::System {
            self.tally.lock().allocated.extend(allotted.extents());
        }
        let disk = &self.core.disk;
        disk.hold_unwritten_map(&place, &allotted);
        // The same commit, and readers, may need it before the batch is written.
        disk.hold_unwritten(sum, piece.clone());
        self.write_later(allotted.pieces(&piece))?;
        Ok(RecordPtr { place, identity })
    }

    pub(crate) fn write_later(&self, writes: Vec<(SegmentId, u32, BatchPiece)>) -> Result<()> {
        let disk = &self.core.disk;
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
        update(&self.core.disk, root, &overlay.edits(), &mut target)
    }

    /// The present state, for [`TxgWriter::undo_since`].
    pub(crate) fn mark(&self) -> Mark {
        let tally = self.tally.lock();
        Mark {
            allocated: tally.allocated.len(),
            freed: tally.freed.len(),
            unshared: tally.unshared.len(),
            unread: tally.unread.len(),
        }
    }

    /// Undoes the changes of a task since a mark: does not free what it freed, and frees what it allocated.
    pub(crate) fn undo_since(&self, mark: &Mark) {
        let mut tally = self.tally.lock();
        debug_assert!(
            mark.allocated <= tally.allocated.len() && mark.freed <= tally.freed.len(),
            "the mark is of this commit"
        );
        tally.freed.truncate(mark.freed);
        tally.unshared.truncate(mark.unshared);
        tally.unread.truncate(mark.unread);
        let allocated = tally.allocated[mark.allocated..].to_vec();
        // Not free at once: the batch may still write there.
        tally.freed.extend(allocated);
    }

    /// The pointers to shared records that the transaction group has freed.
    pub(crate) fn take_unshared(&self) -> Vec<ShareId> {
        let mut all = std::mem::take(&mut self.tally.lock().unshared);
        all.extend(self.core.take_unshared(self.txg));
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

    /// Reserves space for new entries of the dataset table, with so many bytes of texts in all.
    pub(crate) fn reserve_entries(&self, count: usize, texts: usize) -> Result<SpaceReservation> {
        let bytes = count as u64 * ENTRY_SPACE + META_COPIES as u64 * texts as u64;
        self.core.space.reserve(bytes, ReserveFor::Freeing)
    }

    /// Returns whether the task has written keys.
    pub(crate) fn has_key_blocks(&self) -> bool {
        !self.key_blocks.lock().is_empty()
    }

    /// The space that can be used again once the commit is durable, and the places to free later.
    pub(crate) fn into_freed(self) -> (Vec<StoredExtent>, Vec<RecordLocation>) {
        let tally = self.tally.into_inner();
        let mut freed = tally.freed;
        // These are in no bitmap. They only become free for the allocator.
        freed.extend(tally.system_freed);
        (freed, tally.unread)
    }

    /// Frees the places that the transaction group no longer needs.
    fn free_group(&self) {
        for place in self.core.take_freed(self.txg) {
            self.free(&place);
        }
    }

    /// Takes the extents that the transaction group has freed up to now.
    pub(crate) fn take_freed(&self) -> Vec<StoredExtent> {
        self.free_group();
        std::mem::take(&mut self.tally.lock().freed)
    }

    /// Has extents of removed groups freed later: a device failed to read where their copies are.
    pub(crate) fn free_later(&self, extents: Vec<StoredExtent>) {
        let place = |extent: StoredExtent| {
            RecordLocation::new([extent.addr(), Addr::default()], 0, [0; 16])
        };
        let places = extents.into_iter().map(place);
        self.tally.lock().unread.extend(places);
    }

    /// Adds the extents freed since [`TxgWriter::take_freed`] to `freed`. Returns all extents that were allocated.
    pub(crate) fn take_rest(&self, freed: &mut Vec<StoredExtent>) -> Vec<StoredExtent> {
        let mut tally = self.tally.lock();
        freed.append(&mut tally.freed);
        tally.allocated.clone()
    }

    /// Sets the extents that are freed once the commit is durable.
    pub(crate) fn put_freed(&self, freed: Vec<StoredExtent>) {
        debug_assert!(
            self.tally.lock().freed.is_empty(),
            "all earlier ones were taken"
        );
        self.tally.lock().freed = freed;
    }

    /// Writes all waiting pieces.
    pub(crate) fn write_rest(&self) -> Result<()> {
        let disk = &self.core.disk;
        self.batch.write(disk.store.as_ref())?;
        // From here on readers find the pieces on the devices.
        disk.release_unwritten();
        disk.release_unwritten_maps();
        Ok(())
    }
}

/// The pool's own arrays have no snapshots.
struct PoolTarget<'a> {
    commit: &'a TxgWriter<'a>,
    class: Class,
}

impl UpdateTarget for PoolTarget<'_> {
    fn born(&mut self, _: &RecordPtr) {}

    fn killed(&mut self, ptr: &RecordPtr) -> Result<()> {
        if self.class == Class::System {
            let mut tally = self.commit.tally.lock();
            tally
                .system_freed
                .extend(StoredExtent::of_whole(&ptr.place));
        } else {
            self.commit.free(&ptr.place);
        }
        Ok(())
    }

    fn place_node(&mut self, node: ArrayNode, level: u8) -> Result<RecordPtr> {
        self.commit.place_node(self.class, node, level)
    }
}
