//! The record cache: plaintext of records that were read or written, bounded in bytes.
//!
//! The key of an entry is the dataset and the checksum of the stored record. So an old record is never returned for a
//! newer one, and a snapshot shares the entries of records that it shares on disk. When a key is unloaded, all entries
//! of its dataset are removed and wiped.

use std::sync::Arc;

use meter::{CacheTotals, Lookups};
use pool::CacheHash;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::buffer::RecordBuffer;

/// A dataset's guid and a record's checksum.
type RecordKey = (u64, [u8; 16]);

#[derive(Clone)]
struct ByBytes;

impl Weighter<RecordKey, Arc<RecordBuffer>> for ByBytes {
    fn weight(&self, _: &RecordKey, buffer: &Arc<RecordBuffer>) -> u64 {
        buffer.memory() as u64 + 128
    }
}

/// The record cache of all datasets.
pub(crate) struct RecordCache {
    entries: Cache<RecordKey, Arc<RecordBuffer>, ByBytes, CacheHash>,
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

    pub(crate) fn get(&self, dataset: u64, checksum: &[u8; 16]) -> Option<Arc<RecordBuffer>> {
        self.lookups.count(self.entries.get(&(dataset, *checksum)))
    }

    /// Returns the contents and hits.
    pub(crate) fn totals(&self) -> CacheTotals {
        self.lookups
            .totals(self.entries.weight(), self.entries.capacity())
    }

    /// The largest number of bytes in it.
    pub(crate) fn capacity(&self) -> u64 {
        self.entries.capacity()
    }

    pub(crate) fn insert(&self, dataset: u64, checksum: &[u8; 16], buffer: Arc<RecordBuffer>) {
        self.entries.insert((dataset, *checksum), buffer);
    }

    /// Removes an entry and returns it, for a caller that is about to change the record.
    pub(crate) fn take(&self, dataset: u64, checksum: &[u8; 16]) -> Option<Arc<RecordBuffer>> {
        let taken = self.entries.remove(&(dataset, *checksum));
        self.lookups.count(taken).map(|(_, buffer)| buffer)
    }

    /// Forgets a record that is replaced.
    pub(crate) fn forget(&self, dataset: u64, checksum: &[u8; 16]) {
        self.entries.remove(&(dataset, *checksum));
    }

    /// Removes all entries of a dataset.
    pub(crate) fn wipe(&self, dataset: u64) {
        self.entries.retain(|(owner, _), _| *owner != dataset);
    }
}
