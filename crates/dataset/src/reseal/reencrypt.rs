//! Seals stored records again with the newest data keys, a piece at a time, while the dataset is in use.
//!
//! A step opens a record, seals it again and places it. The next commit puts it into its slot, if the slot still has
//! the record that was read. So no later write is lost, and a crash leaves the old record or the new one. The position
//! is not stored: the pointer of a record shows whether the record is done.

use std::cell::RefCell;

use pool::{
    ArrayKind, Pool, RecordPtr, ReserveFor, SLOT_LIMIT, SealInput, SpaceReservation, TxgWriter,
};

use crate::core::Dataset;
use crate::core::reencryption::{ReencryptionReport, ReencryptionWalk, Rewritten};
use crate::error::Result;
use crate::seal::{Nonces, SealOutput};

/// A step passes over at most this many records that are done.
const PASSED_MAX: usize = 50_000;

/// Re-encryption leaves 1 / this of a pool to writers. Otherwise it would fill the pool if a snapshot keeps the old
/// records.
const LEFT_TO_WRITERS: u64 = 16;

thread_local! {
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Dataset {
    /// Seals about `budget` bytes again, for the next commit. The caller commits before the next step. If too little
    /// space is free, does nothing, and reports that it waits.
    ///
    /// # Errors
    /// An array cannot be read, or the pool refuses changes. A damaged record is counted, and is no error.
    pub fn reencrypt_step(&self, budget: u64) -> Result<ReencryptionReport> {
        let mut walk = self.reencryption.walk.lock();
        let Some(newest) = self.sealer.newest() else {
            return Ok(ReencryptionReport::default());
        };
        if walk.progress.is_done {
            *walk = ReencryptionWalk::default();
        }
        let kept = self.kept_from_reencryption()?;
        walk.progress.waits = false;
        let (mut left, mut passed) = (budget, 0);
        while left > 0 && passed < PASSED_MAX {
            let array = ArrayKind::ALL[walk.array];
            let Some(slot) = self.open.next(array, walk.slot, SLOT_LIMIT)? else {
                if self.end_array(&mut walk) {
                    break;
                }
                continue;
            };
            let ptr = self.open.get(array, slot)?;
            let size = u64::from(ptr.place.disk_size());
            if ptr.is_empty() || ptr.identity.generation() == newest {
                passed += 1;
            } else {
                left = left.saturating_sub(size);
                let copies = ptr.place.copies().count();
                let space = self.open.copies_space(array, size as usize, copies);
                let bytes = space + self.settings().table_space();
                let Ok(reserved) = self.pool.reserve_besides(bytes, ReserveFor::Writing, kept)
                else {
                    // The commit frees the replaced records. Then there may be space again.
                    walk.progress.waits = !self.has_waiting();
                    break;
                };
                match self.reencrypt(array, slot, copies, reserved)? {
                    true => walk.found += 1,
                    false => walk.progress.damaged += 1,
                }
            }
            walk.progress.seen += size;
            walk.slot = slot + 1;
        }
        if self.has_waiting() {
            self.open.mark_changed(&self.pool.enter()?);
        }
        Ok(walk.progress)
    }

    /// Bytes that re-encryption must leave free: for reservations of other datasets, and for writers.
    fn kept_from_reencryption(&self) -> Result<u64> {
        let kept = self.pool.limits(self.id())?.kept;
        Ok(kept.saturating_add(self.pool.space().total / LEFT_TO_WRITERS))
    }

    fn has_waiting(&self) -> bool {
        !self.reencryption.waiting.lock().is_empty()
    }

    /// The progress of the present pass.
    pub fn reencrypted(&self) -> ReencryptionReport {
        self.reencryption.walk.lock().progress
    }

    /// True at the end of a pass.
    fn end_array(&self, walk: &mut ReencryptionWalk) -> bool {
        if walk.array == 0 {
            (walk.array, walk.slot) = (1, 0);
            return false;
        }
        let is_done = walk.found == 0;
        let progress = ReencryptionReport {
            is_done,
            ..walk.progress
        };
        // The next pass finds records with older keys that were put behind the position of this pass.
        *walk = ReencryptionWalk::default();
        if is_done {
            walk.progress = progress;
        }
        true
    }

    /// False if the record cannot be opened.
    fn reencrypt(
        &self,
        array: ArrayKind,
        slot: u64,
        copies: usize,
        reserved: SpaceReservation,
    ) -> Result<bool> {
        // Taken and not borrowed: the device below may be a volume, and then this thread comes here again.
        let mut buf = SEALED.take();
        let mut anew: Option<SealOutput> = None;
        let read = self.open.read(array, slot, &mut buf, &mut |ptr, bytes| {
            let nonces = Nonces::of(array, self.settings().dedup, &*self.engine.random);
            anew = self.sealer.reseal(array, ptr, bytes, nonces).ok();
            anew.is_some()
        });
        SEALED.set(buf);
        let (ptr, sealed) = match (read, anew) {
            (Ok(Some(ptr)), Some(sealed)) => (ptr, sealed),
            // The record was removed meanwhile.
            (Ok(_), _) => return Ok(true),
            (Err(error), _) => {
                let dataset = self.name();
                tracing::warn!(%error, dataset, "a record could not be sealed anew");
                return Ok(false);
            }
        };
        if ptr.place.copies().count() != copies {
            // The slot has another record now. The next pass examines it.
            return Ok(true);
        }
        let placed = self.place(array, &sealed, copies)?;
        self.reencryption.waiting.lock().push(Rewritten {
            array,
            slot,
            was: ptr,
            placed,
            _reserved: reserved,
        });
        Ok(true)
    }

    /// Puts the newly sealed records into slots that have not changed since. The changes of the transaction group
    /// itself come first.
    pub(crate) fn sync_reencrypted(&self, commit: &TxgWriter<'_>) -> pool::Result<()> {
        let waiting = std::mem::take(&mut *self.reencryption.waiting.lock());
        for rewritten in waiting {
            let Rewritten {
                array,
                slot,
                was,
                placed,
                ..
            } = rewritten;
            if commit.current(&self.open, array, slot)? == was {
                commit.put_placed(&self.open, array, slot, placed);
                // The new record may be a gang or shared where the old one was not, so its space differs.
                self.inodes.forget_stored();
            }
        }
        Ok(())
    }

    /// Forgets the keys of a generation. No data is sealed with it any more.
    pub fn forget_generation(&self, number: u32) {
        self.sealer.forget_generation(number);
    }

    /// The generation that made the seal over a state of the dataset: the present state or a snapshot. `None` if the
    /// keyring does not have it. A state that was never written has no seal, and gives the newest generation.
    ///
    /// # Errors
    /// The pool has no entry with this id.
    pub fn sealed_by(&self, pool: &Pool, id: u64) -> Result<Option<u32>> {
        let entry = pool.entry(id)?;
        if entry.sequence == 0 && entry.roots.iter().all(RecordPtr::is_empty) {
            return Ok(self.sealer.newest());
        }
        let input = SealInput::of(&entry, self.open.guid());
        Ok(self.sealer.sealed_by(&input, &entry.seal))
    }
}
