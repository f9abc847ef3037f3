//! The mounts of a pool that wait: for a key, or for the mount above them.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

/// The datasets of a pool that are to be mounted later, by id.
#[derive(Default)]
pub(crate) struct AwaitedMounts(Mutex<MountWaits>);

#[derive(Default)]
struct MountWaits {
    /// Datasets that were mounted before a crash: a command had mounted them, or their key is missing.
    before_crash: BTreeSet<u64>,
    /// Datasets whose directory lies in that of a dataset that waits for its key, with that one.
    below_locked: BTreeMap<u64, u64>,
}

impl AwaitedMounts {
    /// Notes a dataset that was mounted before a crash and is not mounted again.
    pub(crate) fn note_crashed(&self, id: u64) {
        self.0.lock().before_crash.insert(id);
    }

    /// Returns whether a dataset was mounted before a crash, and is not mounted again.
    pub(crate) fn has_crashed(&self, id: u64) -> bool {
        self.0.lock().before_crash.contains(&id)
    }

    /// The datasets that were mounted before a crash and are not mounted again.
    pub(crate) fn crashed(&self) -> BTreeSet<u64> {
        self.0.lock().before_crash.clone()
    }

    /// Notes a dataset that is mounted after `above`, which waits for its key.
    pub(crate) fn wait_for(&self, id: u64, above: u64) {
        self.0.lock().below_locked.insert(id, above);
    }

    /// Returns whether a dataset waits for the mount of another one.
    pub(crate) fn waits_for_parent(&self, id: u64) -> bool {
        self.0.lock().below_locked.contains_key(&id)
    }

    /// Takes the datasets that wait for the mounts of others, and these others. The caller tries them again.
    pub(crate) fn take_below_locked(&self) -> impl Iterator<Item = u64> {
        let waited = std::mem::take(&mut self.0.lock().below_locked);
        waited.into_iter().flat_map(|(id, above)| [id, above])
    }

    /// Called when a dataset is mounted.
    pub(crate) fn end(&self, id: u64) {
        let mut waits = self.0.lock();
        waits.before_crash.remove(&id);
        waits.below_locked.remove(&id);
    }

    /// Moves the datasets that were mounted before a crash to a newer state of the same pool.
    pub(crate) fn move_crashed_to(&self, newer: &AwaitedMounts) {
        let crashed = std::mem::take(&mut self.0.lock().before_crash);
        newer.0.lock().before_crash = crashed;
    }
}
