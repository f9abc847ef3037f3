//! The shared part of all open datasets of a process: the record cache, the sealing threads, time and random
//! numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use cipher::Random;
use meter::CacheTotals;
use parking_lot::Mutex;
use pool::CacheHash;
use vfs::Time;

use super::admission::Ledger;
use super::io::cache::RecordCache;
use super::io::workers::Workers;
use crate::tree::PAGE;

/// What time it is.
pub trait Clock: Send + Sync {
    /// The present, to the nanosecond.
    fn now(&self) -> Time;
}

/// How much memory an engine may use, and how many threads.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// For clean records and pages, in bytes.
    pub cache_bytes: u64,
    /// For what is written and not yet in the pool, in bytes.
    pub dirty_bytes: u64,
    /// Threads that seal records; without any, writers seal.
    pub seal_threads: usize,
}

/// The shared part.
pub struct Engine {
    pub(crate) cache: RecordCache,
    pub(crate) workers: Workers,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Clean pages that one tree keeps.
    pub(crate) tree_pages: usize,
    pub(crate) ledger: Ledger,
    dirty_max: u64,
    dirty: AtomicU64,
    /// What is dirty of each pool that has an open dataset.
    pools: Mutex<BTreeMap<u64, Weak<DirtyBytes>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Engine {
    /// An engine. `wake` is called when much is dirty and a commit would be welcome.
    pub fn new(
        options: EngineOptions,
        random: Arc<dyn Random>,
        clock: Arc<dyn Clock>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Engine> {
        // A quarter of the cache is for pages, the rest for records.
        let page_bytes = options.cache_bytes / 4;
        let mut seed = [0; 8];
        // Chance that fails here fails again where something depends on it.
        let _ = random.fill(&mut seed);
        let hash = CacheHash(u64::from_le_bytes(seed));
        Arc::new(Engine {
            cache: RecordCache::new(options.cache_bytes - page_bytes, hash),
            workers: Workers::new(options.seal_threads),
            ledger: Ledger::default(),
            random,
            clock,
            tree_pages: (page_bytes / PAGE as u64).max(64) as usize,
            dirty_max: options.dirty_bytes.max(4 << 20),
            dirty: AtomicU64::new(0),
            pools: Mutex::default(),
            wake: Box::new(wake),
        })
    }

    /// The record cache of all datasets, for metrics.
    pub fn record_cache(&self) -> CacheTotals {
        self.cache.totals()
    }

    /// Bytes that the record cache may hold.
    pub(crate) fn cache_capacity(&self) -> u64 {
        self.cache.capacity()
    }

    /// Bytes that are written and not yet in a pool, of all datasets.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Says that a commit would be welcome.
    pub(crate) fn wake(&self) {
        (self.wake)();
    }

    /// The count of what is dirty of a pool.
    pub(crate) fn dirty_of(&self, pool: u64) -> Arc<DirtyBytes> {
        let mut pools = self.pools.lock();
        if let Some(known) = pools.get(&pool).and_then(Weak::upgrade) {
            return known;
        }
        pools.retain(|_, counted| counted.strong_count() > 0);
        let new = Arc::new(DirtyBytes::default());
        pools.insert(pool, Arc::downgrade(&new));
        new
    }

    /// Counts bytes that became dirty in a pool.
    pub(crate) fn add_dirty(&self, of_pool: &DirtyBytes, bytes: usize) {
        of_pool.0.fetch_add(bytes as u64, Ordering::Relaxed);
        let before = self.dirty.fetch_add(bytes as u64, Ordering::Relaxed);
        let after = before + bytes as u64;
        if before <= self.dirty_max / 2 && after > self.dirty_max / 2 {
            self.wake();
        }
    }

    /// Counts bytes that are dirty no longer.
    pub(crate) fn sub_dirty(&self, of_pool: &DirtyBytes, bytes: usize) {
        of_pool.0.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.dirty.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Whether so much is dirty that a writer has to wait for a commit of this pool.
    ///
    /// A pool that has less than its share does not wait: a commit of it would free little. So a pool that is
    /// slow or suspended and holds most of what is dirty does not turn each write elsewhere into a commit. All
    /// pools together stay below one and a half times the limit.
    pub(crate) fn is_full(&self, of_pool: &DirtyBytes) -> bool {
        self.dirty.load(Ordering::Relaxed) > self.dirty_max
            && of_pool.0.load(Ordering::Relaxed) > self.dirty_max / 2 / self.pool_count()
    }

    fn pool_count(&self) -> u64 {
        self.pools.lock().len().max(1) as u64
    }
}

/// Bytes that are written to the datasets of one pool, and not yet in it.
#[derive(Default)]
pub(crate) struct DirtyBytes(AtomicU64);
