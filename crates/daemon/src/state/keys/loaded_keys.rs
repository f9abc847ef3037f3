//! The wrapping keys that are loaded for a pool.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use keys::WrappingKey;
use parking_lot::Mutex;

use crate::failure::Result;

/// The loaded wrapping keys, by the id of the dataset whose slots unwrap them. A removed key leaves the memory.
#[derive(Default)]
pub(crate) struct LoadedKeys(Mutex<BTreeMap<u64, WrappingKey>>);

impl LoadedKeys {
    pub(crate) fn has(&self, root: u64) -> bool {
        self.0.lock().contains_key(&root)
    }

    /// Returns the key roots whose keys are loaded, in ascending order.
    pub(crate) fn roots(&self) -> Vec<u64> {
        self.0.lock().keys().copied().collect()
    }

    /// A copy of a key, if it is loaded.
    pub(crate) fn copy_of(&self, root: u64) -> Result<Option<WrappingKey>> {
        let keys = self.0.lock();
        Ok(keys.get(&root).map(WrappingKey::try_clone).transpose()?)
    }

    /// Loads a key in place of the one that may be loaded.
    pub(crate) fn put(&self, root: u64, key: WrappingKey) {
        self.0.lock().insert(root, key);
    }

    /// Loads a key, unless one is loaded. Returns whether it did.
    pub(crate) fn put_first(&self, root: u64, key: WrappingKey) -> bool {
        match self.0.lock().entry(root) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(key);
                true
            }
        }
    }

    /// Forgets keys.
    pub(crate) fn remove(&self, roots: &[u64]) {
        let mut keys = self.0.lock();
        roots.iter().for_each(|root| drop(keys.remove(root)));
    }

    /// Forgets all keys.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Moves all keys to another state of the same pool, in place of its own.
    pub(crate) fn move_to(&self, other: &LoadedKeys) {
        let keys = std::mem::take(&mut *self.0.lock());
        *other.0.lock() = keys;
    }
}
