//! Names that were listed, of directories in which the lower name of an entry cannot be computed.
//!
//! A lower name tells its plain name. So what is found by a known name is right as long as its lower entry exists and
//! the keys are the same. That a name is missing is known only if nothing but this mount makes names: then each that it
//! makes is entered here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The most names that are kept at the same time, of all directories of the process: some 40 MiB.
const NAMES_MAX: usize = 1 << 18;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// The known names of a directory.
#[derive(Default)]
pub(super) struct Names(Mutex<Option<Known>>);

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its lower name, if that still exists.
    At(Vec<u8>),
    /// It did not exist when the directory was listed, and this mount has not made it since.
    Missing,
    /// Nothing.
    Unknown,
}

/// Names, while they are listed.
pub(super) struct Known {
    /// The lower name of each plain one.
    lower: HashMap<Vec<u8>, Arc<[u8]>>,
    /// The same lower names.
    listed: HashSet<Arc<[u8]>>,
    /// Of the keys that the names were read with.
    epoch: u64,
    is_complete: bool,
}

impl Known {
    pub(super) fn new(epoch: u64) -> Known {
        Known {
            lower: HashMap::new(),
            listed: HashSet::new(),
            epoch,
            is_complete: true,
        }
    }

    /// Adds a name, unless the same one was listed before. Returns whether there was space for it.
    pub(super) fn add(&mut self, plain: &[u8], lower: &[u8]) -> bool {
        if self.lower.contains_key(plain) {
            return true;
        }
        if KEPT.fetch_add(1, Ordering::Relaxed) >= NAMES_MAX {
            KEPT.fetch_sub(1, Ordering::Relaxed);
            self.is_complete = false;
            return false;
        }
        let lower: Arc<[u8]> = lower.into();
        self.listed.insert(lower.clone());
        self.lower.insert(plain.to_vec(), lower);
        true
    }

    fn set(&mut self, plain: &[u8], lower: &[u8]) {
        self.remove(plain);
        self.add(plain, lower);
    }

    fn remove(&mut self, plain: &[u8]) {
        if let Some(lower) = self.lower.remove(plain) {
            self.listed.remove(&lower);
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.lower.len(), Ordering::Relaxed);
    }
}

impl Names {
    /// What is known of a name, by the keys of this epoch.
    pub(super) fn get(&self, plain: &[u8], epoch: u64) -> Answer {
        let known = self.0.lock();
        let Some(known) = known.as_ref().filter(|known| known.epoch == epoch) else {
            return Answer::Unknown;
        };
        match known.lower.get(plain) {
            Some(lower) => Answer::At(lower.to_vec()),
            None if known.is_complete => Answer::Missing,
            None => Answer::Unknown,
        }
    }

    /// Whether names of this epoch are known.
    pub(super) fn are_of(&self, epoch: u64) -> bool {
        let known = self.0.lock();
        known.as_ref().is_some_and(|known| known.epoch == epoch)
    }

    /// Whether this lower name is that of a known name of this epoch.
    pub(super) fn has_lower(&self, lower: &[u8], epoch: u64) -> bool {
        let known = self.0.lock();
        let known = known.as_ref().filter(|known| known.epoch == epoch);
        known.is_some_and(|known| known.listed.contains(lower))
    }

    /// Enters a name that was listed, unless the plain one is known.
    pub(super) fn listed(&self, plain: &[u8], lower: &[u8], epoch: u64) {
        let mut known = self.0.lock();
        if let Some(known) = known.as_mut().filter(|known| known.epoch == epoch) {
            known.add(plain, lower);
        }
    }

    /// Replaces what is known. No name may be made between the listing and this, unless nothing is concluded from
    /// a name that is missing.
    pub(super) fn replace(&self, known: Known) {
        *self.0.lock() = Some(known);
    }

    /// Enters a name that was found, in the place of what was known of it.
    pub(super) fn found(&self, plain: &[u8], lower: &[u8], epoch: u64) {
        let mut known = self.0.lock();
        if let Some(known) = known.as_mut().filter(|known| known.epoch == epoch) {
            known.set(plain, lower);
        }
    }

    /// Makes a name. If that fails, it is not known any more which names are missing.
    pub(super) fn make<T, E>(
        &self,
        (plain, lower): (&[u8], &[u8]),
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let was_complete = match &mut *self.0.lock() {
            Some(known) => std::mem::replace(&mut known.is_complete, false),
            None => false,
        };
        let made = make()?;
        if let Some(known) = &mut *self.0.lock() {
            known.is_complete = was_complete;
            known.set(plain, lower);
        }
        Ok(made)
    }

    /// That a name was removed.
    pub(super) fn remove(&self, plain: &[u8]) {
        if let Some(known) = &mut *self.0.lock() {
            known.remove(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let (names, mut known) = (Names::default(), Known::new(1));
        assert!(known.add(b"a", b"A"));
        names.replace(known);
        names
    }

    #[test]
    fn a_name_is_missing_only_if_all_are_known() {
        let names = names();
        assert_eq!(names.get(b"a", 1), Answer::At(b"A".to_vec()));
        assert_eq!(names.get(b"b", 1), Answer::Missing);
        assert_eq!(names.get(b"a", 2), Answer::Unknown);
        assert_eq!(Names::default().get(b"a", 1), Answer::Unknown);
    }

    #[test]
    fn what_is_made_is_known() {
        let names = names();
        names.make((b"b", b"B"), || Ok::<_, ()>(())).unwrap();
        assert_eq!(names.get(b"b", 1), Answer::At(b"B".to_vec()));
        names.remove(b"b");
        assert_eq!(names.get(b"b", 1), Answer::Missing);
    }

    #[test]
    fn after_a_failure_nothing_is_missing() {
        let names = names();
        assert!(names.make((b"b", b"B"), || Err::<(), _>(())).is_err());
        assert_eq!(names.get(b"b", 1), Answer::Unknown);
        assert_eq!(names.get(b"a", 1), Answer::At(b"A".to_vec()));
    }
}
