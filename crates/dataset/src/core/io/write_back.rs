//! Puts records and pages into the pool: workers do this ahead of a commit, and the commit does the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cipher::{NonceBatch, Random};
use parking_lot::Mutex;
use pool::{ArrayKind, DatasetHooks, PastSeal, PlacedRecord, RecordPtr, SealInput, TxgWriter};

use crate::buffer::RecordBuffer;
use crate::core::io::memory::frozen::{FrozenFiles, FrozenRecord};
use crate::core::io::memory::inode::{DirtyRecord, Inode, RecordStage, SealJob};
use crate::core::io::workers::{RunningJob, RunningJobs};
use crate::core::{Dataset, PAGE_SPACE, Settings};
use crate::error::Result;
use crate::seal::{Nonces, SealOutput};

/// Records that together have this many bytes are sealed by one job. Those that come to lie side by side are written
/// with one call.
const GROUP_BYTES: usize = 256 << 10;

/// A record that a worker seals ahead of a commit.
struct Ahead {
    record: u64,
    slot: u64,
    buffer: Arc<RecordBuffer>,
    copies: usize,
    job: Arc<SealJob>,
    _pending: [RunningJob; 2],
}

impl Dataset {
    /// Makes workers seal records that were written sequentially, while their writer goes on.
    pub(crate) fn seal_early(&self, inode: &Arc<Inode>, records: impl Iterator<Item = u64>) {
        self.seal_ahead(inode, records.map(|record| (record, ())), |(), dirty| {
            dirty.is_streamed
        });
    }

    /// Makes workers put records into the open transaction group, if they wait and are `wanted`. Returns values to wait
    /// for, also where another thread began the work.
    pub(crate) fn seal_ahead<T>(
        &self,
        inode: &Arc<Inode>,
        records: impl Iterator<Item = (u64, T)>,
        wanted: impl Fn(T, &DirtyRecord) -> bool,
    ) -> Vec<RunningJobs> {
        let (mut begun, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (record, why) in records {
            let mut waiting = inode.records.lock();
            let Some(dirty) = waiting.get_mut(&record) else {
                continue;
            };
            match &dirty.stage {
                RecordStage::Dirty if wanted(why, dirty) => {}
                RecordStage::Sealing(job) => {
                    begun.push(job.under_way.clone());
                    continue;
                }
                RecordStage::Dirty | RecordStage::Syncing => continue,
            }
            // The lock is released before the work: a full queue makes this thread do it, and others write meanwhile.
            let ahead = self.begin_ahead(record, dirty);
            drop(waiting);
            begun.push(ahead.job.under_way.clone());
            bytes += ahead.buffer.len();
            group.push(ahead);
            if bytes >= GROUP_BYTES {
                self.seal_in_worker(inode, std::mem::take(&mut group));
                bytes = 0;
            }
        }
        self.seal_in_worker(inode, group);
        begun
    }

    fn begin_ahead(&self, record: u64, dirty: &mut DirtyRecord) -> Ahead {
        let job = Arc::new(SealJob::default());
        dirty.stage = RecordStage::Sealing(Arc::clone(&job));
        Ahead {
            record,
            slot: dirty.slot,
            buffer: Arc::clone(&dirty.buffer),
            copies: dirty.copies,
            _pending: [self.pending.begin(), job.under_way.begin()],
            job,
        }
    }

    fn seal_in_worker(&self, inode: &Arc<Inode>, group: Vec<Ahead>) {
        if group.is_empty() {
            return;
        }
        let (dataset, inode) = (self.this(), Arc::clone(inode));
        self.engine.workers.run(self.pool.guid(), move || {
            // A commit that waited has begun the others itself.
            let own: Vec<&Ahead> = group.iter().filter(|ahead| ahead.job.begin()).collect();
            let records: Vec<_> = own.iter().map(|one| (&*one.buffer, one.copies)).collect();
            let outcomes = dataset.seal_records(&records);
            dataset.finish_early(&inode, own.into_iter().zip(outcomes));
            // A thread that waits for these jobs may be about to close the dataset.
            drop(dataset);
            drop(group);
        });
    }

    /// Does the same as [`Dataset::seal_record`], for several records and the numbers of their copies.
    fn seal_records(&self, records: &[(&RecordBuffer, usize)]) -> Vec<Result<PlacedRecord>> {
        let settings = self.settings();
        let alone = || {
            let records = records.iter();
            records.map(|(buffer, copies)| self.seal_record(buffer, *copies))
        };
        if settings.dedup || records.len() == 1 {
            return alone().collect();
        }
        // One call to the source of random numbers for all of them.
        let batch = NonceBatch::new(&*self.engine.random, records.len());
        let sealed = records.iter();
        let sealed =
            sealed.map(|(buffer, _)| self.seal(&settings, ArrayKind::Data, buffer, &batch));
        let Ok(sealed) = sealed.collect::<Result<Vec<_>>>() else {
            // Which of them cannot be sealed is said of it alone.
            return alone().collect();
        };
        let to_place = sealed.iter().zip(records);
        let to_place = to_place.map(|(one, (_, copies))| (one.identity, &*one.bytes, *copies));
        let placed = self
            .open
            .place_each(ArrayKind::Data, &to_place.collect::<Vec<_>>());
        sealed.into_iter().for_each(SealOutput::recycle);
        placed.into_iter().map(|placed| Ok(placed?)).collect()
    }

    pub(crate) fn seal_record(&self, buffer: &RecordBuffer, copies: usize) -> Result<PlacedRecord> {
        let settings = self.settings();
        let sealed = self.seal(&settings, ArrayKind::Data, buffer, &*self.engine.random)?;
        let placed = self.place(ArrayKind::Data, &sealed, copies);
        sealed.recycle();
        Ok(placed?)
    }

    /// Writes a record to places of its own, or shares the place of an equal record.
    pub(crate) fn place(
        &self,
        array: ArrayKind,
        sealed: &SealOutput,
        copies: usize,
    ) -> pool::Result<PlacedRecord> {
        let (identity, bytes) = (sealed.identity, &sealed.bytes);
        match sealed.nonce_is_of_contents {
            true => self.open.place_shared(identity, bytes),
            false => self.open.place_copies(array, identity, bytes, copies),
        }
    }

    fn seal(
        &self,
        settings: &Settings,
        array: ArrayKind,
        plain: &[u8],
        random: &dyn Random,
    ) -> Result<SealOutput> {
        let compression = settings.compression.of(array);
        let nonces = Nonces::of(array, settings.dedup, random);
        self.sealer
            .seal(array, compression, plain, nonces)
            .map_err(|error| self.not_sealed(&error))
    }

    pub(crate) fn not_sealed(&self, error: &cipher::Error) -> crate::Error {
        tracing::error!(%error, dataset = self.name(), "a record could not be sealed; what was not synced is lost");
        vfs::Error::Io.into()
    }

    fn finish_early<'a>(
        &self,
        inode: &Inode,
        outcomes: impl Iterator<Item = (&'a Ahead, Result<PlacedRecord>)>,
    ) {
        // If the pool is suspended, the records stay in memory.
        let hold = self.pool.enter();
        let mut records = inode.records.lock();
        for (ahead, outcome) in outcomes {
            // A commit has taken the record over. It puts the outcome into its own group.
            if ahead.job.is_frozen() {
                ahead.job.deliver(outcome);
                continue;
            }
            let is_ours = |stage: &RecordStage| matches!(stage, RecordStage::Sealing(at) if Arc::ptr_eq(at, &ahead.job));
            let Some(dirty) = records
                .get_mut(&ahead.record)
                .filter(|dirty| is_ours(&dirty.stage))
            else {
                // Another thread has changed or removed the record, and does the rest.
                continue;
            };
            match (&hold, outcome) {
                (Ok(hold), Ok(placed)) => {
                    let ptr = self.open.put(hold, ArrayKind::Data, ahead.slot, placed);
                    self.mark_changed(hold);
                    if !dirty.is_streamed {
                        self.cache_record(&ptr, &ahead.buffer);
                    }
                    records.remove(&ahead.record);
                    self.dirty.sub(ahead.buffer.len());
                }
                // The commit tries again, and reports the error.
                _ => dirty.stage = RecordStage::Dirty,
            }
        }
    }

    fn freeze_records(&self, frozen: &mut FrozenFiles) {
        let mut dirty = self.inodes.dirty.lock();
        // No hold exists now, so that no other thread changes a record meanwhile.
        dirty.retain(|_, inode| {
            let mut records = inode.records.lock();
            for (record, dirty) in records.iter_mut() {
                let job = match std::mem::replace(&mut dirty.stage, RecordStage::Syncing) {
                    RecordStage::Dirty => None,
                    RecordStage::Sealing(job) => {
                        // Its worker hands the outcome to the commit, unless the commit begins the job first.
                        job.frozen.store(true, Ordering::Release);
                        Some(job)
                    }
                    RecordStage::Syncing => unreachable!("one commit at a time"),
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
        let groups = in_groups(records);
        let next = AtomicUsize::new(0);
        debug_assert_eq!(
            groups.iter().map(|group| group.len()).sum::<usize>(),
            records.len(),
            "each record is in one group"
        );
        let work = || -> Result<()> {
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.sync_group(commit, group)?;
            }
            Ok(())
        };
        let count = self.engine.workers.count().min(groups.len());
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..count)
                .map_while(|_| threads::start_in(scope, "sync", work).ok())
                .collect();
            let mut result = work();
            for thread in helpers {
                let outcome = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(outcome);
            }
            result
        })
    }

    fn sync_group(&self, commit: &TxgWriter<'_>, group: &[FrozenRecord]) -> Result<()> {
        let is_own = |frozen: &&FrozenRecord| frozen.job.as_ref().is_none_or(|job| job.begin());
        // Own work first: the others go on in their workers meanwhile.
        let (own, begun): (Vec<_>, Vec<_>) = group.iter().partition(is_own);
        let records: Vec<_> = own.iter().map(|one| (&*one.buffer, one.copies)).collect();
        let sealed = own.into_iter().zip(self.seal_records(&records));
        let begun = begun.into_iter().filter_map(|frozen| {
            let job = frozen.job.as_ref()?;
            Some((frozen, job.wait()))
        });
        for (frozen, placed) in sealed.chain(begun) {
            *frozen.ptr.lock() =
                commit.put_placed(&self.open, ArrayKind::Data, frozen.slot, placed?);
            // The record has its place, so that the space is counted as taken.
            drop(frozen.reserved.lock().take());
        }
        Ok(())
    }

    fn sync_pages(&self, commit: &TxgWriter<'_>, frozen: &FrozenFiles) -> Result<()> {
        let batch = NonceBatch::new(&*self.engine.random, frozen.pages.len() + 1);
        // Before the pages: a slot that was freed may be in use again.
        for slot in &frozen.freed {
            commit.punch(&self.open, ArrayKind::Pages, *slot);
        }
        for (slot, page) in &frozen.pages {
            self.put_page(commit, *slot, page.bytes(), &batch)?;
        }
        match frozen.header.as_ref().filter(|_| frozen.is_header_new) {
            Some(header) => self.put_page(commit, 0, &header.encode(), &batch),
            None => Ok(()),
        }
    }

    fn put_page(
        &self,
        commit: &TxgWriter<'_>,
        slot: u64,
        plain: &[u8],
        random: &dyn Random,
    ) -> Result<()> {
        let sealed = self.seal(&self.settings(), ArrayKind::Pages, plain, random)?;
        let (identity, bytes) = (sealed.identity, sealed.bytes);
        Ok(commit.put(&self.open, ArrayKind::Pages, slot, identity, bytes)?)
    }

    /// Adds seals to the history, and puts its changed pages.
    fn sync_seals(
        &self,
        commit: &TxgWriter<'_>,
        frozen: &FrozenFiles,
        past: &[PastSeal],
    ) -> Result<()> {
        let random = &*self.engine.random;
        for (number, page) in self.history.lock().append(past) {
            let slot = match &frozen.header {
                None => Some(number),
                Some(header) => {
                    let (slot, new) = self.tree.seal_slot(number, header);
                    if new.seal_runs != header.seal_runs {
                        self.put_page(commit, 0, &new.encode(), random)?;
                    }
                    slot
                }
            };
            if let Some(slot) = slot {
                self.put_page(commit, slot, &page.encode(), random)?;
            }
        }
        Ok(())
    }

    /// Called when a frozen record is in the pool: it leaves memory, unless it was changed again.
    fn settle_record(&self, frozen: &FrozenRecord) {
        let mut records = frozen.inode.records.lock();
        // A write during the commit has made a copy of the buffer, or set the stage back.
        let unchanged = records.get(&frozen.record).filter(|dirty| {
            matches!(dirty.stage, RecordStage::Syncing)
                && Arc::ptr_eq(&dirty.buffer, &frozen.buffer)
        });
        if let Some(dirty) = unchanged {
            if !dirty.is_streamed {
                self.cache_record(&frozen.ptr.lock(), &frozen.buffer);
            }
            records.remove(&frozen.record);
            self.dirty.sub(frozen.buffer.len());
        }
    }
}

/// Neighbours in a list, each group as long as one job writes.
fn in_groups(records: &[FrozenRecord]) -> Vec<&[FrozenRecord]> {
    let mut bytes = 0;
    let same_group = |one: &FrozenRecord, _: &FrozenRecord| {
        bytes += one.buffer.len();
        let goes_on = bytes < GROUP_BYTES;
        if !goes_on {
            bytes = 0;
        }
        goes_on
    };
    records.chunk_by(same_group).collect()
}

fn in_commit(error: crate::Error) -> pool::Error {
    match error {
        crate::Error::Pool(error) => error,
        other => pool::Error::Sealing {
            reason: other.to_string(),
        },
    }
}

impl DatasetHooks for Dataset {
    fn freeze(&self, txg: u64) {
        // No thread synced for long: a commit frees the log.
        if self.journal.freeze(txg) {
            self.open.want_log(0, 0);
        }
        let mut frozen = FrozenFiles::default();
        self.freeze_records(&mut frozen);
        let tree = self.tree.freeze();
        frozen.pages = tree.pages;
        frozen.freed = tree.freed;
        frozen.header = self.volume.is_none().then_some(tree.header);
        frozen.is_header_new = tree.is_header_new;
        frozen
            .page_reservations
            .append(&mut self.page_reservations.lock());
        debug_assert!(
            self.frozen.lock().records.is_empty(),
            "the last group is durable"
        );
        *self.frozen.lock() = frozen;
    }

    fn sync(&self, commit: &TxgWriter<'_>) -> pool::Result<()> {
        let mut frozen = self.frozen.lock();
        let result = self
            .sync_records(commit, &frozen.records)
            .and_then(|()| self.sync_pages(commit, &frozen))
            .and_then(|()| Ok(self.sync_reencrypted(commit)?));
        // Space for a page of the history is left.
        frozen.page_reservations.truncate(1);
        let left = frozen.page_reservations.first_mut();
        left.into_iter()
            .for_each(|reserved| reserved.shrink(PAGE_SPACE));
        result.map_err(in_commit)
    }

    fn keep_seals(&self, commit: &TxgWriter<'_>, past: &[PastSeal]) -> pool::Result<()> {
        let mut frozen = self.frozen.lock();
        let result = self.sync_seals(commit, &frozen, past);
        frozen.page_reservations.clear();
        result.map_err(in_commit)
    }

    fn seal(&self, input: &SealInput) -> [u8; 32] {
        self.sealer.dataset_seal(input)
    }

    fn synced(&self, txg: u64) {
        self.journal.committed(txg);
        self.history.lock().synced();
        let frozen = std::mem::take(&mut *self.frozen.lock());
        for record in &frozen.records {
            self.settle_record(record);
        }
        // Records first, then pages: both are in the pool, and can leave memory.
        let slots: Vec<u64> = frozen.pages.iter().map(|(slot, _)| *slot).collect();
        self.tree.thaw(&slots);
        for record in frozen.records {
            let ino = record.inode.ino;
            // The inode leaves memory only if nothing else has it.
            drop(record);
            self.inodes.release(ino);
        }
    }
}
