//! The time since when no program has used the data of each loaded key, for the property `autolock`.
//!
//! A mount is in use when it served a request since the last look. The kernel answers some reads of open files from its
//! memory; but a mount with open files cannot be unmounted, so its key stays too.

use std::collections::BTreeMap;
use std::time::Instant;

use parking_lot::Mutex;

/// The use of the data of a key, as far as one look shows it. Two looks with the same use had none between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyActivity {
    /// The number of requests that each mount has served, by the id of its dataset.
    pub(crate) mounts: BTreeMap<u64, u64>,
    /// True if something else than mounts uses the key: a volume, an export, a stream.
    pub(crate) is_held: bool,
}

/// The loaded keys that may be idle, by key root.
#[derive(Default)]
pub(crate) struct IdleKeys(Mutex<BTreeMap<u64, IdleKey>>);

struct IdleKey {
    activity: KeyActivity,
    since: Instant,
}

impl IdleKeys {
    /// Notes the use of a key at a time. Returns the time since when there was none.
    pub(crate) fn note(&self, root: u64, activity: &KeyActivity, now: Instant) -> Instant {
        let mut all = self.0.lock();
        let idle = all.entry(root).or_insert_with(|| IdleKey {
            activity: activity.clone(),
            since: now,
        });
        if activity.is_held || idle.activity != *activity {
            idle.activity = activity.clone();
            idle.since = now;
        }
        idle.since
    }

    /// Notes that a key is in use at a time.
    pub(crate) fn note_use(&self, root: u64, now: Instant) {
        if let Some(idle) = self.0.lock().get_mut(&root) {
            idle.since = now;
        }
    }

    /// The time since when a key is not used, if that was noted.
    pub(crate) fn since(&self, root: u64) -> Option<Instant> {
        self.0.lock().get(&root).map(|idle| idle.since)
    }

    /// Forgets all keys but these.
    pub(crate) fn keep(&self, roots: &[u64]) {
        self.0.lock().retain(|root, _| roots.contains(root));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_is_idle_since_its_last_use() {
        let (keys, start) = (IdleKeys::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let used = |requests: u64, is_held: bool| KeyActivity {
            mounts: [(3, requests)].into(),
            is_held,
        };
        assert_eq!(keys.note(7, &used(1, false), at(0)), at(0));
        assert_eq!(keys.note(7, &used(1, false), at(5)), at(0));
        assert_eq!(keys.note(7, &used(2, false), at(10)), at(10));
        assert_eq!(keys.note(7, &used(2, true), at(15)), at(15));
        assert_eq!(keys.note(7, &used(2, true), at(20)), at(20), "held still");
        assert_eq!(keys.note(7, &used(2, false), at(25)), at(25), "a change");
        assert_eq!(keys.note(7, &used(2, false), at(30)), at(25));
        keys.note_use(7, at(31));
        assert_eq!(keys.since(7), Some(at(31)));
        // A mount came, or went.
        let other = KeyActivity {
            mounts: BTreeMap::new(),
            is_held: false,
        };
        assert_eq!(keys.note(7, &other, at(40)), at(40));
        keys.keep(&[8]);
        assert_eq!(keys.since(7), None);
    }
}
