//! The parts of storage that all layers above share: devices, allocator, time and random numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::env::Env;
use crate::format::extent::Extent;
use crate::format::features::{
    FEATURE_LOG, FEATURE_LOG_PLACES, FEATURE_OWNERS, FEATURE_QUICK_LOG, FEATURE_SCATTERED,
};
use crate::format::pointer::{Place, Share};
use crate::storage::in_flight::InFlight;
use crate::storage::reader::PoolReader;
use crate::storage::space::Space;

/// The storage of a pool, and what its transaction groups leave there.
pub(crate) struct Core {
    pub(crate) disk: Arc<PoolReader>,
    pub(crate) space: Arc<Space>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) in_flight: InFlight,
    /// Features that the pool has come to require since it was imported.
    features: AtomicU64,
    /// What the two transaction groups under way replaced among their own records, by parity.
    freed: [Mutex<Vec<Place>>; 2],
}

impl Core {
    pub(crate) fn new(disk: Arc<PoolReader>, space: Arc<Space>, env: Arc<dyn Env>) -> Core {
        Core {
            disk,
            space,
            env,
            in_flight: InFlight::default(),
            features: AtomicU64::new(0),
            freed: Default::default(),
        }
    }

    fn note(&self, features: u64) {
        self.features.fetch_or(features, Ordering::AcqRel);
    }

    /// Remembers that a record lies in pieces: the commit that first has one says so in the root.
    pub(crate) fn note_scattered(&self) {
        self.note(FEATURE_SCATTERED);
    }

    /// Remembers that a dataset has a log, for the root as well.
    pub(crate) fn note_log(&self) {
        self.note(FEATURE_LOG | FEATURE_QUICK_LOG | FEATURE_LOG_PLACES);
    }

    /// Remembers that there are counts of what users and groups have.
    pub(crate) fn note_owners(&self) {
        self.note(FEATURE_OWNERS);
    }

    /// The features that the pool requires from now on.
    pub(crate) fn features(&self) -> u64 {
        self.features.load(Ordering::Acquire)
    }

    /// Frees, with its own commit, a place that the transaction group no longer needs.
    pub(crate) fn free_later(&self, txg: u64, place: &Place) {
        self.freed[(txg % 2) as usize].lock().push(*place);
    }

    /// The shared ones among the places that a transaction group no longer needs.
    pub(crate) fn take_unshared(&self, txg: u64) -> Vec<Share> {
        let mut freed = self.freed[(txg % 2) as usize].lock();
        let shares = freed.iter().filter_map(Place::share).collect();
        freed.retain(|place| !place.is_shared());
        shares
    }

    /// The units of the places that a transaction group no longer needs.
    pub(crate) fn take_freed(&self, txg: u64) -> Vec<Extent> {
        let places = std::mem::take(&mut *self.freed[(txg % 2) as usize].lock());
        let extents = places.iter().map(|place| self.disk.extents_to_free(place));
        extents.flatten().collect()
    }
}
