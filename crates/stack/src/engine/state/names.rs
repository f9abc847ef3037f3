//! Names that were listed, of directories in which the lower name of an entry cannot be computed.
//!
//! A lower name tells its plain name. So what is found by a known name is right as long as its lower entry exists and
//! the keys are the same. That a name is missing is known only if nothing but this mount makes names, or if the
//! directory is watched: each name that the mount makes is entered here, and one that others make ends this
//! knowledge.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::lower::{NewNames, Watch};

/// The most names that are kept at the same time, of all directories of the process: some 40 MiB.
const NAMES_MAX: usize = 1 << 18;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// The known names of a directory.
#[derive(Default)]
pub(crate) struct NameCache {
    state: Mutex<State>,
    /// Tells of names that others make.
    watch: Mutex<Option<Watch>>,
}

#[derive(Default)]
struct State {
    known: Option<NameListing>,
    /// The number of times that names of others were heard of, or may have been missed.
    strangers: Strangers,
}

impl State {
    fn known_of(&mut self, epoch: u64) -> Option<&mut NameListing> {
        self.known.as_mut().filter(|known| known.epoch == epoch)
    }

    /// Notes that there may be a name that is not known.
    fn heard_of_stranger(&mut self) {
        self.strangers.0 += 1;
        if let Some(known) = &mut self.known {
            known.is_complete = false;
        }
    }
}

/// A moment: what was listed since has all names if it is still this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strangers(u64);

/// The knowledge about a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LookupResult {
    /// The name has this lower name, if that still exists.
    At(Vec<u8>),
    /// The name did not exist when the directory was listed, and this mount has not made it since.
    Missing,
    /// No knowledge.
    Unknown,
}

/// Names, while they are listed.
pub(crate) struct NameListing {
    /// The lower name of each plain one.
    lower: HashMap<Vec<u8>, Arc<[u8]>>,
    /// The same lower names.
    listed: HashSet<Arc<[u8]>>,
    /// The epoch of the keys that the names were read with.
    epoch: u64,
    is_complete: bool,
}

impl NameListing {
    pub(crate) fn new(epoch: u64) -> NameListing {
        NameListing {
            lower: HashMap::new(),
            listed: HashSet::new(),
            epoch,
            is_complete: true,
        }
    }

    /// Adds a name, unless the same one was listed before. Returns whether there was space for it.
    pub(crate) fn add(&mut self, plain: &[u8], lower: &[u8]) -> bool {
        if let Some(first) = self.lower.get(plain) {
            // When the first one is gone, this one is still there.
            self.is_complete &= first[..] == *lower;
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

impl Drop for NameListing {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.lower.len(), Ordering::Relaxed);
    }
}

impl NameCache {
    /// Looks up a name, by the keys of this epoch.
    pub(crate) fn get(&self, plain: &[u8], epoch: u64) -> LookupResult {
        let mut state = self.state.lock();
        let Some(known) = state.known_of(epoch) else {
            return LookupResult::Unknown;
        };
        match known.lower.get(plain) {
            Some(lower) => LookupResult::At(lower.to_vec()),
            None if known.is_complete => LookupResult::Missing,
            None => LookupResult::Unknown,
        }
    }

    /// Returns whether names of this epoch are known.
    pub(crate) fn are_of(&self, epoch: u64) -> bool {
        self.state.lock().known_of(epoch).is_some()
    }

    /// Returns whether this lower name is that of a known name of this epoch.
    pub(crate) fn has_lower(&self, lower: &[u8], epoch: u64) -> bool {
        let mut state = self.state.lock();
        let known = state.known_of(epoch);
        known.is_some_and(|known| known.listed.contains(lower))
    }

    /// The moment before a listing.
    pub(crate) fn strangers(&self) -> Strangers {
        self.state.lock().strangers
    }

    /// Enters a name that was listed, unless the plain one is known. Returns whether the lower one is known now.
    pub(crate) fn listed(&self, plain: &[u8], lower: &[u8], epoch: u64) -> bool {
        let mut state = self.state.lock();
        let known = state.known_of(epoch);
        known.is_some_and(|known| known.add(plain, lower) && known.listed.contains(lower))
    }

    /// Notes that all names were listed and entered since that moment.
    pub(crate) fn all_listed(&self, epoch: u64, since: Strangers) {
        let mut state = self.state.lock();
        if state.strangers == since
            && let Some(known) = state.known_of(epoch)
        {
            known.is_complete = true;
        }
    }

    /// Replaces what is known by what was listed since that moment. No name may be made between the listing and this,
    /// unless nothing is concluded from a name that is missing.
    pub(crate) fn replace(&self, mut known: NameListing, since: Strangers) {
        let mut state = self.state.lock();
        known.is_complete &= state.strangers == since;
        state.known = Some(known);
    }

    /// Enters a name that was found, in the place of what was known of it.
    pub(crate) fn found(&self, plain: &[u8], lower: &[u8], epoch: u64) {
        if let Some(known) = self.state.lock().known_of(epoch) {
            known.set(plain, lower);
        }
    }

    /// Makes a name. If that fails, it is not known any more which names are missing.
    pub(crate) fn make<T, E>(
        &self,
        (plain, lower): (&[u8], &[u8]),
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let (was_complete, since) = {
            let mut state = self.state.lock();
            let known = state.known.as_mut();
            let complete = known.map(|known| std::mem::replace(&mut known.is_complete, false));
            (complete == Some(true), state.strangers)
        };
        let made = make()?;
        let mut state = self.state.lock();
        let has_stranger = state.strangers != since;
        if let Some(known) = &mut state.known {
            known.is_complete = was_complete && !has_stranger;
            known.set(plain, lower);
        }
        Ok(made)
    }

    /// Forgets a name that was removed.
    pub(crate) fn remove(&self, plain: &[u8]) {
        if let Some(known) = &mut self.state.lock().known {
            known.remove(plain);
        }
    }

    /// Watches the directory from now on, if it is not watched.
    pub(crate) fn watch(&self, watch: impl FnOnce() -> Option<Watch>) {
        let mut watched = self.watch.lock();
        if watched.is_none() {
            *watched = watch();
            // Others may have made names before.
            self.state.lock().heard_of_stranger();
        }
    }

    /// Hears which names others have made. `is_own` says of a lower name that the view never shows it. Returns
    /// whether the directory is watched.
    pub(crate) fn hear(&self, is_own: impl Fn(&[u8]) -> bool) -> bool {
        let mut watch = self.watch.lock();
        let Some(new) = watch.as_ref().map(Watch::take) else {
            return false;
        };
        let mut state = self.state.lock();
        let known = state.known.as_ref();
        let is_known = |lower: &[u8]| known.is_some_and(|known| known.listed.contains(lower));
        let has_stranger = match &new {
            NewNames::All(names) => !names.iter().all(|name| is_own(name) || is_known(name)),
            NewNames::Many => true,
            NewNames::Unknown => {
                *watch = None;
                true
            }
        };
        if has_stranger {
            state.heard_of_stranger();
        }
        watch.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> NameCache {
        let (names, mut known) = (NameCache::default(), NameListing::new(1));
        assert!(known.add(b"a", b"A"));
        names.replace(known, Strangers::default());
        names
    }

    #[test]
    fn a_name_is_missing_only_if_all_are_known() {
        let names = names();
        assert_eq!(names.get(b"a", 1), LookupResult::At(b"A".to_vec()));
        assert_eq!(names.get(b"b", 1), LookupResult::Missing);
        assert_eq!(names.get(b"a", 2), LookupResult::Unknown);
        assert_eq!(NameCache::default().get(b"a", 1), LookupResult::Unknown);
    }

    #[test]
    fn what_is_made_is_known() {
        let names = names();
        names.make((b"b", b"B"), || Ok::<_, ()>(())).unwrap();
        assert_eq!(names.get(b"b", 1), LookupResult::At(b"B".to_vec()));
        names.remove(b"b");
        assert_eq!(names.get(b"b", 1), LookupResult::Missing);
    }

    #[test]
    fn after_a_failure_nothing_is_missing() {
        let names = names();
        assert!(names.make((b"b", b"B"), || Err::<(), _>(())).is_err());
        assert_eq!(names.get(b"b", 1), LookupResult::Unknown);
        assert_eq!(names.get(b"a", 1), LookupResult::At(b"A".to_vec()));
    }

    #[test]
    fn a_name_of_another_program_ends_what_is_known_of_missing_ones() {
        let names = names();
        let dir = tempfile::tempdir().unwrap();
        let watches = crate::lower::Watches::new().unwrap();
        let entry = crate::lower::Entry::root(dir.path()).unwrap();
        let make = |name: &str| std::fs::write(dir.path().join(name), b"");
        names.watch(|| watches.add(&entry));
        assert_eq!(names.get(b"b", 1), LookupResult::Unknown);
        let since = names.strangers();
        names.all_listed(1, since);
        names.make((b"b", b"B"), || make("B")).unwrap();
        make("own").unwrap();
        assert!(names.hear(|lower| lower == b"own"));
        assert_eq!(names.get(b"c", 1), LookupResult::Missing);
        make("C").unwrap();
        assert!(names.hear(|lower| lower == b"own"));
        assert_eq!(names.get(b"c", 1), LookupResult::Unknown);
        // It was heard of after the listing began.
        names.all_listed(1, since);
        assert_eq!(names.get(b"c", 1), LookupResult::Unknown);
    }
}
