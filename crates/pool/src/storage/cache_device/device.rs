//! A cache device in use: its index, its waiting writes, and the thread that writes.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use store::{CacheRange, ErrorCounts, UNIT};

use super::index::{CacheKey, CacheSpan, ENTRIES_MAX, Index};
use crate::format::records::pointer::checksum;

/// At most this many bytes wait. While so many wait, no more records are cached.
const WAITING_MAX: usize = 16 << 20;
/// The bytes of one write.
const BATCH: usize = 1 << 20;
/// After more failed reads than this, a device is not used any more.
const FAILED_READS_MAX: u64 = 16;

/// The index is kept on the device after so many bytes, and when the device is closed.
const INDEX_AFTER: u64 = 256 << 20;
/// A write that takes longer is not waited for when the device is closed.
const CLOSING: Duration = Duration::from_secs(1);

/// A cache device. When it is dropped its thread ends.
pub(crate) struct CacheDevice {
    pub(crate) guid: u64,
    inner: Arc<CacheDeviceState>,
    writer: Option<JoinHandle<()>>,
}

struct CacheDeviceState {
    range: CacheRange,
    /// True if other threads may do something for it.
    has_threads: bool,
    index: Mutex<Index>,
    waiting: Mutex<WaitingWrites>,
    changed: Condvar,
    has_failed: AtomicBool,
    failed_reads: AtomicU64,
    failed_writes: AtomicU64,
    bad: AtomicU64,
    /// The bytes that were written since the index was kept.
    unlisted: AtomicU64,
    /// The entries from before this process, less those that led to other bytes. After a crash the index is older than the
    /// copies.
    from_before: AtomicU64,
}

#[derive(Default)]
struct WaitingWrites {
    records: VecDeque<(CacheKey, Vec<u8>)>,
    bytes: usize,
    /// True while the index is loaded or records are written.
    is_writing: bool,
    is_leaving: bool,
    /// True when the thread does nothing to the device any more.
    has_left: bool,
}

impl CacheDevice {
    /// Starts to use a device, with the index that it keeps. Without a thread, only [`CacheDevice::drain`] writes to it.
    pub(crate) fn start(range: CacheRange, guid: u64, has_thread: bool) -> CacheDevice {
        let inner = Arc::new(CacheDeviceState {
            index: Mutex::new(Index::new(range.units(), ENTRIES_MAX)),
            range,
            has_threads: has_thread,
            waiting: Mutex::new(WaitingWrites {
                is_writing: has_thread,
                ..WaitingWrites::default()
            }),
            changed: Condvar::new(),
            has_failed: AtomicBool::new(false),
            failed_reads: AtomicU64::new(0),
            failed_writes: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            unlisted: AtomicU64::new(0),
            from_before: AtomicU64::new(0),
        });
        if !has_thread {
            inner.load_index();
        }
        CacheDevice {
            guid,
            writer: has_thread.then(|| start_writer(&inner)).flatten(),
            inner,
        }
    }

    pub(crate) fn range(&self) -> &CacheRange {
        &self.inner.range
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.inner.has_failed.load(Ordering::Acquire)
    }

    /// Returns whether it is not asked now, because it did not answer.
    pub(crate) fn is_slow(&self) -> bool {
        self.inner.range.is_slow()
    }

    /// The bytes in use, and the capacity.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let bytes = |units: u64| units * u64::from(UNIT);
        let held = self.inner.index.lock().held();
        (bytes(held), bytes(self.inner.range.units().into()))
    }

    pub(crate) fn errors(&self) -> ErrorCounts {
        ErrorCounts {
            read: self.inner.failed_reads.load(Ordering::Relaxed),
            write: self.inner.failed_writes.load(Ordering::Relaxed),
            checksum: self.inner.bad.load(Ordering::Relaxed),
        }
    }

    /// Fills `buf` with the bytes of a checksum, if the device has good ones and answers. A slow device is asked again
    /// when it has answered what it was asked before.
    pub(crate) fn find(&self, sum: &[u8; 16], buf: &mut [u8]) -> bool {
        !self.has_failed() && !self.is_slow() && self.inner.find(sum, buf)
    }

    /// Queues bytes to be written, unless too many are waiting.
    pub(crate) fn offer(&self, sum: &[u8; 16], bytes: &[u8]) {
        let key = key_of(sum);
        if self.has_failed() || self.is_slow() || self.inner.index.lock().get(key).is_some() {
            return;
        }
        let mut waiting = self.inner.waiting.lock();
        if waiting.bytes + bytes.len() <= WAITING_MAX {
            waiting.bytes += bytes.len();
            waiting.records.push_back((key, bytes.to_vec()));
            self.inner.changed.notify_all();
        }
    }

    /// Waits until all waiting bytes are written. Without a thread, writes them itself.
    pub(crate) fn drain(&self) {
        if self.writer.is_none() {
            return self.inner.write_waiting();
        }
        let mut waiting = self.inner.waiting.lock();
        while waiting.is_writing || !waiting.records.is_empty() {
            self.inner.changed.wait(&mut waiting);
        }
    }
}

/// Starts the thread that writes. `None` if the environment has no threads.
fn start_writer(inner: &Arc<CacheDeviceState>) -> Option<JoinHandle<()>> {
    let writes = Arc::clone(inner);
    let writer = threads::start("cache", move || writes.write_all());
    if let Err(error) = &writer {
        tracing::warn!(%error, device = inner.range.name(), "nothing is written to the cache device");
        inner.waiting.lock().is_writing = false;
    }
    writer.ok()
}

impl Drop for CacheDevice {
    fn drop(&mut self) {
        let mut waiting = self.inner.waiting.lock();
        waiting.is_leaving = true;
        waiting.records.clear();
        self.inner.changed.notify_all();
        while self.writer.is_some() && !waiting.has_left {
            let waited = self.inner.changed.wait_for(&mut waiting, CLOSING);
            if waited.timed_out() {
                // The device stays open until it answers, so that nothing else is there that a late write could hit.
                return;
            }
        }
        drop(waiting);
        match self.writer.take() {
            // A panic is logged already. The pool does not need the cache.
            Some(writer) => drop(writer.join()),
            None => self.inner.keep_index(),
        }
    }
}

impl CacheDeviceState {
    fn find(&self, sum: &[u8; 16], buf: &mut [u8]) -> bool {
        let key = key_of(sum);
        let span = self.index.lock().get(key);
        let Some(span) = span.filter(|span| bytes_of(span.units) == buf.len()) else {
            return false;
        };
        let read = match self.has_threads {
            true => self.range.read_soon(span.start, buf),
            false => self.range.read(span.start, buf),
        };
        match read {
            Ok(()) if checksum(buf) == *sum => true,
            Ok(()) => {
                // If the entry is gone, its place was reused meanwhile.
                if self.index.lock().remove(key, span.start) && !self.is_excused() {
                    self.bad.fetch_add(1, Ordering::Relaxed);
                }
                false
            }
            Err(error @ store::Error::Unanswered { .. }) => {
                tracing::warn!(%error, "the cache device is not used until it answers");
                false
            }
            Err(error) => {
                self.index.lock().remove(key, span.start);
                let failed = self.failed_reads.fetch_add(1, Ordering::Relaxed) + 1;
                if failed > FAILED_READS_MAX {
                    self.fail(&error);
                }
                false
            }
        }
    }

    /// Stops using the device after a failure.
    fn fail(&self, error: &store::Error) {
        if !self.has_failed.swap(true, Ordering::AcqRel) {
            let device = self.range.name();
            tracing::warn!(%error, device, "the cache device failed and is not used any more");
        }
        self.index.lock().clear();
    }

    fn write_all(&self) {
        self.load_index();
        loop {
            let batch = {
                let mut waiting = self.waiting.lock();
                waiting.is_writing = false;
                self.changed.notify_all();
                while waiting.records.is_empty() && !waiting.is_leaving {
                    self.changed.wait(&mut waiting);
                }
                waiting.is_writing = true;
                match waiting.is_leaving {
                    true => None,
                    false => Some(waiting.take_batch()),
                }
            };
            let Some(batch) = batch else {
                self.keep_index();
                self.waiting.lock().has_left = true;
                self.changed.notify_all();
                return;
            };
            if !self.has_failed.load(Ordering::Acquire) {
                self.write(batch);
            }
        }
    }

    /// Writes the waiting bytes.
    fn write_waiting(&self) {
        loop {
            let batch = self.waiting.lock().take_batch();
            if batch.is_empty() {
                return;
            }
            if !self.has_failed.load(Ordering::Acquire) {
                self.write(batch);
            }
        }
    }

    /// Writes records one after the other, and then enters them into the index.
    fn write(&self, mut batch: Vec<(CacheKey, Vec<u8>)>) {
        let mut spans = Vec::with_capacity(batch.len());
        let start = {
            let mut index = self.index.lock();
            // The record was read twice before it was written here.
            batch.dedup_by_key(|(key, _)| *key);
            batch.retain(|(key, _)| index.get(*key).is_none());
            let units = batch.iter().map(|(_, bytes)| units_of(bytes.len())).sum();
            match index.make_space(units) {
                Some(start) if units > 0 => start,
                _ => return,
            }
        };
        let mut at = start;
        for (key, bytes) in &batch {
            let units = units_of(bytes.len());
            spans.push((*key, CacheSpan { start: at, units }));
            at += units;
        }
        let pieces: Vec<IoSlice<'_>> = batch.iter().map(|(_, b)| IoSlice::new(b)).collect();
        if let Err(error) = self.range.write(start, &pieces) {
            self.failed_writes.fetch_add(1, Ordering::Relaxed);
            self.fail(&error);
            return;
        }
        let mut index = self.index.lock();
        for (key, span) in spans {
            index.insert(key, span);
        }
        drop(index);
        let written = pieces.iter().map(|piece| piece.len() as u64).sum();
        if self.unlisted.fetch_add(written, Ordering::Relaxed) + written >= INDEX_AFTER {
            self.keep_index();
        }
    }

    /// Takes over the index that the device keeps. Entries that were replaced since lead to other bytes, and are misses.
    fn load_index(&self) {
        if let Some(kept) = self.range.read_index() {
            let mut index = self.index.lock();
            index.decode(&kept);
            self.from_before.store(index.entries(), Ordering::Relaxed);
            tracing::debug!(
                units = index.held(),
                "a cache device has records from before"
            );
        }
    }

    /// Returns whether an entry may lead to other bytes without an error of the device.
    fn is_excused(&self) -> bool {
        let less = |entries: u64| entries.checked_sub(1);
        let before = self
            .from_before
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.is_ok()
    }

    /// Keeps the index on the device, if it has changed.
    fn keep_index(&self) {
        if self.has_failed.load(Ordering::Acquire) || self.unlisted.swap(0, Ordering::Relaxed) == 0
        {
            return;
        }
        let index = self.index.lock().encode(self.range.index_max());
        if let Err(error) = self.range.write_index(&index) {
            tracing::debug!(%error, "the index of a cache device was not kept");
        }
    }
}

impl WaitingWrites {
    /// Takes as many records as fit into one write, at least one.
    fn take_batch(&mut self) -> Vec<(CacheKey, Vec<u8>)> {
        let (mut batch, mut taken) = (Vec::new(), 0);
        while let Some((_, bytes)) = self.records.front()
            && (taken == 0 || taken + bytes.len() <= BATCH)
        {
            taken += bytes.len();
            batch.extend(self.records.pop_front());
        }
        self.bytes = self.bytes.saturating_sub(taken);
        batch
    }
}

fn key_of(sum: &[u8; 16]) -> CacheKey {
    let (first, _) = sum.split_first_chunk().expect("it is longer");
    u64::from_le_bytes(*first)
}

fn bytes_of(units: u32) -> usize {
    units as usize * UNIT as usize
}

/// The number of units for these bytes.
fn units_of(bytes: usize) -> u32 {
    (bytes / UNIT as usize) as u32
}
