//! The parts of storage that all layers above share: devices, allocator, time and random numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::env::Env;
use crate::format::records::pointer::{RecordIdentity, RecordLocation, ShareId};
use crate::format::superblock::features::{
    FEATURE_BOUND_LOGS, FEATURE_CHECKED_RECORDS, FEATURE_FILE_FLAGS, FEATURE_LOG,
    FEATURE_LOG_PLACES, FEATURE_OWNERS, FEATURE_QUICK_LOG, FEATURE_SCATTERED, FEATURE_SEAL_HISTORY,
    FEATURE_STORED_SUMS,
};
use crate::storage::in_flight::InFlight;
use crate::storage::reader::PoolReader;
use crate::storage::space::Space;

/// The storage of a pool, and the changes that its transaction groups make to it.
pub(crate) struct Core {
    pub(crate) disk: Arc<PoolReader>,
    pub(crate) space: Arc<Space>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) in_flight: InFlight,
    /// Features that the pool requires since its import.
    features: AtomicU64,
    /// The places that the two running transaction groups replaced among their own records. The index is the last
    /// bit of the group's number.
    freed: [Mutex<Vec<RecordLocation>>; 2],
    /// Places that the last commit could not free, because a device failed to read the list of their units.
    pub(crate) unread: Mutex<Vec<RecordLocation>>,
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
            unread: Mutex::default(),
        }
    }

    fn note(&self, features: u64) {
        self.features.fetch_or(features, Ordering::AcqRel);
    }

    /// Notes that a record is a gang: the first commit with one sets the feature in the root.
    pub(crate) fn note_scattered(&self) {
        self.note(FEATURE_SCATTERED);
    }

    /// Notes that a dataset has a log, for the root.
    pub(crate) fn note_log(&self) {
        self.note(FEATURE_LOG | FEATURE_QUICK_LOG | FEATURE_LOG_PLACES | FEATURE_BOUND_LOGS);
    }

    /// Notes that a dataset counts the space of users and groups.
    pub(crate) fn note_owners(&self) {
        self.note(FEATURE_OWNERS);
    }

    /// Notes that files in a dataset have flags that forbid changes.
    pub(crate) fn note_file_flags(&self) {
        self.note(FEATURE_FILE_FLAGS);
    }

    /// Notes that a pointer to a node has a sum.
    pub(crate) fn note_stored_sums(&self) {
        self.note(FEATURE_STORED_SUMS);
    }

    /// Notes that a record has the hash of its ciphertext in its identity.
    pub(crate) fn note_checked(&self, identity: &RecordIdentity) {
        if identity.is_checked() {
            self.note(FEATURE_CHECKED_RECORDS);
        }
    }

    /// Notes that a dataset has a history of its seals.
    pub(crate) fn note_seal_history(&self) {
        self.note(FEATURE_SEAL_HISTORY);
    }

    /// The features that the pool requires from now on.
    pub(crate) fn features(&self) -> u64 {
        self.features.load(Ordering::Acquire)
    }

    /// Notes a place that the transaction group no longer needs. The commit of the group frees it.
    pub(crate) fn free_later(&self, txg: u64, place: &RecordLocation) {
        self.freed[(txg % 2) as usize].lock().push(*place);
    }

    /// The shared ones among the places that a transaction group no longer needs.
    pub(crate) fn take_unshared(&self, txg: u64) -> Vec<ShareId> {
        let mut freed = self.freed[(txg % 2) as usize].lock();
        let shares = freed.iter().filter_map(RecordLocation::share).collect();
        freed.retain(|place| !place.is_shared());
        shares
    }

    /// The places that a transaction group no longer needs.
    pub(crate) fn take_freed(&self, txg: u64) -> Vec<RecordLocation> {
        std::mem::take(&mut *self.freed[(txg % 2) as usize].lock())
    }

    /// Returns whether there are places that the last commit could not free.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.lock().is_empty()
    }
}
