//! Puts records and pages into the pool: workers do this ahead of a commit, and the commit does the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pool::{ArrayKind, DatasetHooks, Placed, RecordPtr, SealInput, TxgWriter};

use super::frozen::{FrozenFiles, FrozenRecord};
use super::inode::{DirtyRecord, Inode, SealJob, Stage};
use super::workers::Pending;
use crate::buffer::Buffer;
use crate::core::{Dataset, Settings};
use crate::error::Result;
use crate::seal::{Nonces, Sealed};

impl Dataset {
    /// Makes a worker seal a record that was written sequentially, while its writer goes on.
    pub(crate) fn seal_early(&self, inode: &Arc<Inode>, record: u64) {
        self.seal_ahead(inode, record, |dirty| dirty.is_streamed);
    }

    /// Makes a worker put a record into the open transaction group, if the record waits and is `wanted`. Returns a
    /// value to wait for, also if another thread began the work. `None` if there is no work.
    pub(crate) fn seal_ahead(
        &self,
        inode: &Arc<Inode>,
        record: u64,
        wanted: impl FnOnce(&DirtyRecord) -> bool,
    ) -> Option<Pending> {
        let job = Arc::new(SealJob::default());
        let (buffer, slot, copies) = {
            let mut records = inode.records.lock();
            let dirty = records.get_mut(&record)?;
            match &dirty.stage {
                Stage::Dirty if wanted(dirty) => {}
                Stage::Sealing(begun) => return Some(begun.under_way.clone()),
                Stage::Dirty | Stage::Syncing => return None,
            }
            dirty.stage = Stage::Sealing(Arc::clone(&job));
            (Arc::clone(&dirty.buffer), dirty.slot, dirty.copies)
        };
        let dataset = self.this();
        let inode = Arc::clone(inode);
        let under_way = job.under_way.clone();
        let pending = (self.pending.begin(), under_way.begin());
        self.engine.workers.run(self.pool.guid(), move || {
            if job.begin() {
                let outcome = dataset.seal_record(&buffer, copies);
                dataset.finish_early(&inode, record, slot, &buffer, &job, outcome);
            }
            // A thread that waits for the job may be about to close the dataset.
            drop(dataset);
            drop(pending);
        });
        Some(under_way)
    }

    pub(crate) fn seal_record(&self, buffer: &Buffer, copies: usize) -> Result<Placed> {
        let settings = self.settings();
        let sealed = self.seal(&settings, ArrayKind::Data, buffer)?;
        let placed = self.place(ArrayKind::Data, &sealed, copies);
        sealed.recycle();
        Ok(placed?)
    }

    /// Writes a record to places of its own, or shares the place of an equal record.
    pub(crate) fn place(
        &self,
        array: ArrayKind,
        sealed: &Sealed,
        copies: usize,
    ) -> pool::Result<Placed> {
        let (identity, bytes) = (sealed.identity, &sealed.bytes);
        match sealed.nonce_is_of_contents {
            true => self.open.place_shared(identity, bytes),
            false => self.open.place_copies(array, identity, bytes, copies),
        }
    }

    fn seal(&self, settings: &Settings, array: ArrayKind, plain: &[u8]) -> Result<Sealed> {
        let compression = settings.compression.of(array);
        self.sealer
            .seal(array, compression, plain, self.nonces(settings, array))
            .map_err(|error| self.not_sealed(&error))
    }

    /// The source of nonces for records of an array.
    pub(crate) fn nonces(&self, settings: &Settings, array: ArrayKind) -> Nonces<'_> {
        match array {
            ArrayKind::Data if settings.dedup => Nonces::OfContents,
            ArrayKind::Data | ArrayKind::Pages => Nonces::Random(self.engine.random.as_ref()),
        }
    }

    pub(crate) fn not_sealed(&self, error: &cipher::Error) -> crate::Error {
        tracing::error!(%error, dataset = self.name(), "a record could not be sealed; what was not synced is lost");
        vfs::Error::Io.into()
    }

    fn finish_early(
        &self,
        inode: &Inode,
        record: u64,
        slot: u64,
        buffer: &Arc<Buffer>,
        job: &Arc<SealJob>,
        outcome: Result<Placed>,
    ) {
        let hold = self.pool.enter();
        let mut records = inode.records.lock();
        if job.is_frozen() {
            return job.deliver(outcome);
        }
        let is_ours = |stage: &Stage| matches!(stage, Stage::Sealing(at) if Arc::ptr_eq(at, job));
        let Some(dirty) = records
            .get_mut(&record)
            .filter(|dirty| is_ours(&dirty.stage))
        else {
            // Another thread has changed or removed the record, and does the rest.
            return;
        };
        match (hold, outcome) {
            (Ok(hold), Ok(placed)) => {
                let ptr = self.open.put(&hold, ArrayKind::Data, slot, placed);
                self.mark_changed(&hold);
                if !dirty.is_streamed {
                    self.cache_record(&ptr, buffer);
                }
                records.remove(&record);
                self.engine.sub_dirty(&self.dirty, buffer.len());
            }
            // The commit tries again, and reports the error.
            _ => dirty.stage = Stage::Dirty,
        }
    }

    fn freeze_records(&self, frozen: &mut FrozenFiles) {
        let mut dirty = self.inodes.dirty.lock();
        dirty.retain(|_, inode| {
            let mut records = inode.records.lock();
            for (record, dirty) in records.iter_mut() {
                let job = match std::mem::replace(&mut dirty.stage, Stage::Syncing) {
                    Stage::Dirty => None,
                    Stage::Sealing(job) => {
                        job.frozen.store(true, Ordering::Release);
                        Some(job)
                    }
                    Stage::Syncing => unreachable!("one commit at a time"),
                };
                frozen.records.push(FrozenRecord {
                    inode: Arc::clone(inode),
                    record: *record,
                    slot: dirty.slot,
                    buffer: Arc::clone(&dirty.buffer),
                    copies: dirty.copies,
                    job,
                    ptr: Mutex::new(RecordPtr::EMPTY),
                    reserved: Mutex::new(dirty.reserved.take()),
                });
            }
            !records.is_empty()
        });
    }

    /// Seals and places the frozen records, on several threads if there are many.
    fn sync_records(&self, commit: &TxgWriter<'_>, records: &[FrozenRecord]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            while let Some(frozen) = records.get(next.fetch_add(1, Ordering::Relaxed)) {
                let placed = match &frozen.job {
                    Some(job) if !job.begin() => job.wait(),
                    Some(_) | None => self.seal_record(&frozen.buffer, frozen.copies),
                }?;
                *frozen.ptr.lock() =
                    commit.put_placed(&self.open, ArrayKind::Data, frozen.slot, placed);
                drop(frozen.reserved.lock().take());
            }
            Ok(())
        };
        let helpers = self
            .engine
            .workers
            .count()
            .min(records.len() / 4)
            .saturating_sub(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
            let mut result = work();
            for thread in threads {
                let outcome = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(outcome);
            }
            result
        })
    }

    fn sync_pages(&self, commit: &TxgWriter<'_>, frozen: &FrozenFiles) -> Result<()> {
        let settings = self.settings();
        let put = |slot: u64, plain: &[u8]| -> Result<()> {
            let sealed = self.seal(&settings, ArrayKind::Pages, plain)?;
            Ok(commit.put(
                &self.open,
                ArrayKind::Pages,
                slot,
                sealed.identity,
                sealed.bytes,
            )?)
        };
        for slot in &frozen.freed {
            commit.punch(&self.open, ArrayKind::Pages, *slot);
        }
        for (slot, page) in &frozen.pages {
            put(*slot, page.bytes())?;
        }
        if let Some(header) = &frozen.header {
            put(0, &header.encode())?;
        }
        Ok(())
    }

    /// Called when a frozen record is in the pool: it leaves memory, unless it was changed again.
    fn settle_record(&self, frozen: &FrozenRecord) {
        let mut records = frozen.inode.records.lock();
        let unchanged = records.get(&frozen.record).filter(|dirty| {
            matches!(dirty.stage, Stage::Syncing) && Arc::ptr_eq(&dirty.buffer, &frozen.buffer)
        });
        if let Some(dirty) = unchanged {
            if !dirty.is_streamed {
                self.cache_record(&frozen.ptr.lock(), &frozen.buffer);
            }
            records.remove(&frozen.record);
            self.engine.sub_dirty(&self.dirty, frozen.buffer.len());
        }
    }
}

impl DatasetHooks for Dataset {
    fn freeze(&self, txg: u64) {
        if self.journal.freeze(txg) {
            self.open.want_log(0, 0);
        }
        let mut frozen = FrozenFiles::default();
        self.freeze_records(&mut frozen);
        let tree = self.tree.freeze();
        frozen.pages = tree.pages;
        frozen.freed = tree.freed;
        frozen.header = tree.header;
        frozen
            .page_reservations
            .append(&mut self.page_reservations.lock());
        *self.frozen.lock() = frozen;
    }

    fn sync(&self, commit: &TxgWriter<'_>) -> pool::Result<()> {
        let mut frozen = self.frozen.lock();
        let result = self
            .sync_records(commit, &frozen.records)
            .and_then(|()| self.sync_pages(commit, &frozen))
            .and_then(|()| Ok(self.sync_reencrypted(commit)?));
        frozen.page_reservations.clear();
        result.map_err(|error| match error {
            crate::Error::Pool(error) => error,
            other => pool::Error::Sealing {
                reason: other.to_string(),
            },
        })
    }

    fn seal(&self, input: &SealInput) -> [u8; 32] {
        self.sealer.dataset_seal(input)
    }

    fn synced(&self, txg: u64) {
        self.journal.committed(txg);
        let frozen = std::mem::take(&mut *self.frozen.lock());
        for record in &frozen.records {
            self.settle_record(record);
        }
        let slots: Vec<u64> = frozen.pages.iter().map(|(slot, _)| *slot).collect();
        self.tree.thaw(&slots);
        for record in frozen.records {
            let ino = record.inode.ino;
            drop(record);
            self.inodes.release(ino);
        }
    }
}
