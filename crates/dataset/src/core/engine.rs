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
use super::io::memory::cache::RecordCache;
use super::io::workers::SealWorkers;
use crate::tree::PAGE;

/// A source of the time.
pub trait Clock: Send + Sync {
    /// The present, to the nanosecond.
    fn now(&self) -> Time;
}

/// Limits for the memory and threads of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Memory for clean records and pages, in bytes.
    pub cache_bytes: u64,
    /// Memory for data that is written and not yet in the pool, in bytes.
    pub dirty_bytes: u64,
    /// The number of threads that seal records. With 0, writers seal.
    pub seal_threads: usize,
}

/// The shared part of all open datasets.
pub struct Engine {
    pub(crate) cache: RecordCache,
    pub(crate) workers: SealWorkers,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The number of clean pages that one tree keeps.
    pub(crate) tree_pages: usize,
    pub(crate) ledger: Ledger,
    dirty_max: u64,
    dirty: AtomicU64,
    /// The dirty bytes of each pool with an open dataset.
    pools: Mutex<BTreeMap<u64, Weak<AtomicU64>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Engine {
    /// An engine. It calls `wake` when there are many dirty bytes, so that the caller commits.
    pub fn new(
        options: EngineOptions,
        random: Arc<dyn Random>,
        clock: Arc<dyn Clock>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Engine> {
        // A quarter of the cache is for pages, the rest for records.
        let page_bytes = options.cache_bytes / 4;
        let mut seed = [0; 8];
        // The seed is not secret. If random numbers fail, operations that need them fail later.
        let _ = random.fill(&mut seed);
        let hash = CacheHash(u64::from_le_bytes(seed));
        Arc::new(Engine {
            cache: RecordCache::new(options.cache_bytes - page_bytes, hash),
            workers: SealWorkers::new(options.seal_threads),
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

    /// The largest number of bytes in the record cache.
    pub(crate) fn cache_capacity(&self) -> u64 {
        self.cache.capacity()
    }

    /// The bytes of all datasets that are written and not yet in a pool.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Requests a commit.
    pub(crate) fn wake(&self) {
        (self.wake)();
    }

    /// The meter of the dirty bytes of a pool.
    pub(crate) fn dirty_of(self: &Arc<Self>, pool: u64) -> DirtyMeter {
        DirtyMeter {
            engine: Arc::clone(self),
            of_pool: self.count_of(pool),
        }
    }

    fn count_of(&self, pool: u64) -> Arc<AtomicU64> {
        let mut pools = self.pools.lock();
        if let Some(known) = pools.get(&pool).and_then(Weak::upgrade) {
            return known;
        }
        // Pools that are exported leave the list when another one comes.
        pools.retain(|_, counted| counted.strong_count() > 0);
        let new = Arc::<AtomicU64>::default();
        pools.insert(pool, Arc::downgrade(&new));
        new
    }

    fn pool_count(&self) -> u64 {
        self.pools.lock().len().max(1) as u64
    }
}

/// Counts the bytes that are written to the datasets of one pool, and not yet in the pool.
pub(crate) struct DirtyMeter {
    engine: Arc<Engine>,
    of_pool: Arc<AtomicU64>,
}

impl DirtyMeter {
    /// Counts bytes that became dirty.
    pub(crate) fn add(&self, bytes: usize) {
        self.of_pool.fetch_add(bytes as u64, Ordering::Relaxed);
        let before = self.engine.dirty.fetch_add(bytes as u64, Ordering::Relaxed);
        let half = self.engine.dirty_max / 2;
        // Once each time that the half is passed: the commit then runs before writers have to wait.
        if before <= half && before + bytes as u64 > half {
            self.engine.wake();
        }
    }

    /// Counts bytes that are no longer dirty.
    pub(crate) fn sub(&self, bytes: usize) {
        self.of_pool.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.engine.dirty.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Returns whether there are so many dirty bytes that a writer has to wait for a commit of this pool.
    ///
    /// A pool with less than its share does not wait, because its commit would free little. So if a slow or suspended
    /// pool has most of the dirty bytes, writes to other pools do not each cause a commit. All pools together stay
    /// below one and a half times the limit.
    pub(crate) fn is_full(&self) -> bool {
        let dirty_max = self.engine.dirty_max;
        self.engine.dirty_bytes() > dirty_max
            && self.of_pool.load(Ordering::Relaxed) > dirty_max / 2 / self.engine.pool_count()
    }
}
