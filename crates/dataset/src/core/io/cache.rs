//! The record cache: plaintext of records that were read or written, bounded in bytes.
//!
//! An entry is found by its dataset and the checksum of what is on disk, so a record that was
//! replaced cannot be mistaken for the one that replaced it, and a snapshot shares what it shares on
//! disk. When a key is unloaded all entries of its dataset go, and are wiped.

use std::sync::Arc;

use meter::{CacheTotals, Lookups};
use pool::CacheHash;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::buffer::Buffer;

/// A dataset's guid and a record's checksum.
type Key = (u64, [u8; 16]);

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Arc<Buffer>> for ByBytes {
    fn weight(&self, _: &Key, buffer: &Arc<Buffer>) -> u64 {
        buffer.memory() as u64 + 128
    }
}

/// The record cache of all datasets.
pub(crate) struct RecordCache {
    entries: Cache<Key, Arc<Buffer>, ByBytes, CacheHash>,
    lookups: Lookups,
}

impl RecordCache {
    /// A cache of about `bytes`.
    pub(crate) fn new(bytes: u64, hash: CacheHash) -> RecordCache {
        let records = (bytes / (128 << 10)).max(64) as usize;
        RecordCache {
            entries: Cache::with(records, bytes, ByBytes, hash, DefaultLifecycle::default()),
            lookups: Lookups::default(),
        }
    }

    pub(crate) fn get(&self, dataset: u64, checksum: &[u8; 16]) -> Option<Arc<Buffer>> {
        self.lookups.count(self.entries.get(&(dataset, *checksum)))
    }

    /// What it holds, and how often that was what was wanted.
    pub(crate) fn totals(&self) -> CacheTotals {
        self.lookups
            .totals(self.entries.weight(), self.entries.capacity())
    }

    /// Bytes that it may hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.entries.capacity()
    }

    pub(crate) fn insert(&self, dataset: u64, checksum: &[u8; 16], buffer: Arc<Buffer>) {
        self.entries.insert((dataset, *checksum), buffer);
    }

    /// Takes an entry out, for a caller that is about to change it.
    pub(crate) fn take(&self, dataset: u64, checksum: &[u8; 16]) -> Option<Arc<Buffer>> {
        let taken = self.entries.remove(&(dataset, *checksum));
        self.lookups.count(taken).map(|(_, buffer)| buffer)
    }

    /// Forgets a record that is replaced.
    pub(crate) fn forget(&self, dataset: u64, checksum: &[u8; 16]) {
        self.entries.remove(&(dataset, *checksum));
    }

    /// Forgets everything of a dataset.
    pub(crate) fn wipe(&self, dataset: u64) {
        self.entries.retain(|(owner, _), _| *owner != dataset);
    }
}
