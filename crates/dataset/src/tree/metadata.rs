//! The metadata tree: one ordered map from keys to values for each dataset.
//!
//! A B+tree whose pages are slots of the array `pages`. Pages refer to each other by slot number;
//! versions, copy-on-write and places are the array's business below. Pages that are in memory are
//! used in place; what a commit is writing is shared with it and copied when it is changed again.
//!
//! Nothing waits for a device under the tree's lock. An operation that needs a page which is not in
//! memory stops with [`Stop::Miss`]; the page is read without the lock, and the operation starts
//! again. So that this is safe, an operation collects what it wants to change and the tree applies it
//! at the end, all or nothing ([`Writer`]).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::header::Header;
use super::page::{Page, PageKind};
use super::reader::{Reader, Writer};
use super::state::{Pages, State, Status};
use super::step::{Attempt, Step, Stop};
use super::view::Changes;
use crate::error::Result;
use crate::layout::ROOT_SLOT;

/// Where pages come from.
pub(crate) trait PageSource {
    /// Reads the page in a slot.
    fn load(&self, slot: u64) -> Result<Page>;
}

/// The tree of a dataset.
pub(crate) struct Tree {
    pub(super) state: RwLock<State>,
    /// No more clean pages than this are kept.
    pages_max: usize,
    /// Clean pages go as soon as no thread uses the tree.
    is_uncached: AtomicBool,
    /// How many do, as far as that matters.
    users: AtomicUsize,
    /// [`Header::name_key`], which never changes.
    name_key: [u8; 32],
    /// How many pages are dirty; known without the lock.
    dirty_pages: AtomicUsize,
    /// [`Header::counts_owners`], known without the lock.
    counts_owners: AtomicBool,
}

/// An uncached tree keeps no more clean pages than this while it is in use.
const UNCACHED_PAGES: usize = 1024;

/// A use of the tree. While there is one, clean pages stay in memory that an operation has read and
/// needs when it starts again.
pub(crate) struct Use<'a>(Option<&'a Tree>);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        if let Some(tree) = self.0
            && tree.users.fetch_sub(1, Ordering::AcqRel) == 1
            && tree.is_uncached.load(Ordering::Acquire)
        {
            tree.state.write().evict_all();
        }
    }
}

/// What a transaction group changed in the tree.
pub(crate) struct Frozen {
    /// Pages to put.
    pub(crate) pages: Vec<(u64, Arc<Page>)>,
    /// Slots to empty.
    pub(crate) freed: Vec<u64>,
    /// The header, if it changed.
    pub(crate) header: Option<Header>,
}

impl Tree {
    /// A tree that exists, with its header.
    pub(crate) fn open(header: Header, pages_max: usize) -> Tree {
        Tree {
            name_key: header.name_key,
            dirty_pages: AtomicUsize::new(0),
            counts_owners: AtomicBool::new(header.counts_owners),
            state: RwLock::new(State {
                pages: Pages::default(),
                header,
                header_dirty: false,
                dirty: HashSet::new(),
                freed: Vec::new(),
                evictions: 0,
                recount: None,
            }),
            pages_max,
            is_uncached: AtomicBool::new(false),
            users: AtomicUsize::new(0),
        }
    }

    /// Has the tree keep clean pages only as long as a thread uses it, or up to its limit.
    pub(crate) fn set_uncached(&self, is_uncached: bool) {
        self.is_uncached.store(is_uncached, Ordering::Release);
        drop(self.begin_use());
    }

    /// To be held through all tries of an operation.
    pub(crate) fn begin_use(&self) -> Use<'_> {
        if !self.is_uncached.load(Ordering::Acquire) {
            return Use(None);
        }
        self.users.fetch_add(1, Ordering::AcqRel);
        Use(Some(self))
    }

    fn pages_max(&self) -> usize {
        match self.is_uncached.load(Ordering::Acquire) {
            true => self.pages_max.min(UNCACHED_PAGES),
            false => self.pages_max,
        }
    }

    /// How many pages are in memory that could be read again.
    #[cfg(test)]
    pub(crate) fn clean_pages(&self) -> usize {
        let state = self.state.read();
        let pages = state.pages.values();
        pages.filter(|page| page.status == Status::Clean).count()
    }

    /// An empty tree.
    pub(crate) fn create(header: Header, pages_max: usize) -> Tree {
        let tree = Tree::open(header, pages_max);
        {
            let mut state = tree.state.write();
            state.header_dirty = true;
            state.add(ROOT_SLOT, Page::new(PageKind::Leaf));
            tree.publish(&state);
        }
        tree
    }

    /// Runs a reading operation, from the start again whenever it needs a page.
    pub(crate) fn read<T>(
        &self,
        source: &dyn PageSource,
        mut operation: impl FnMut(&Reader<'_>) -> Step<T>,
    ) -> Result<T> {
        let _use = self.begin_use();
        loop {
            let state = self.state.read();
            let slot = match operation(&Reader::new(&state)) {
                Ok(value) => return Ok(value),
                Err(Stop::Fail(error)) => return Err(error.into()),
                Err(Stop::Miss(slot)) => slot,
            };
            let evictions = state.evictions;
            drop(state);
            self.fetch(source, slot, evictions)?;
        }
    }

    /// Runs one try of a changing operation. `Ok(Err(slot))` asks to [`Tree::fetch`] a page, outside
    /// of the transaction group, and to try again. Also returns how many pages it made dirty. `note`
    /// is shown what is about to change, in the order of changes. Quotas of users and groups are kept to unless
    /// `is_free`.
    pub(crate) fn try_write<T>(
        &self,
        txg: u64,
        is_free: bool,
        operation: &mut dyn FnMut(&mut Writer<'_>) -> Step<T>,
        note: &dyn Fn(&Header, &Changes),
    ) -> Result<Attempt<T>> {
        let mut state = self.state.write();
        let mut writer = Writer {
            header: state.header.clone(),
            txg,
            before: Reader::new(&state),
            changes: Changes::new(),
        };
        let miss = |slot, evictions| Ok(Attempt::Miss { slot, evictions });
        let value = match operation(&mut writer) {
            Ok(value) => value,
            Err(Stop::Fail(error)) => return Err(error.into()),
            Err(Stop::Miss(slot)) => return miss(slot, state.evictions),
        };
        let Writer {
            header,
            changes,
            before,
            ..
        } = writer;
        let mut leaves = Vec::with_capacity(changes.len());
        for key in changes.keys() {
            match before.leaf(key) {
                Ok(leaf) => leaves.push(leaf.slot),
                Err(Stop::Miss(slot)) => return miss(slot, state.evictions),
                // What was never read may lie below pages that lead in circles.
                Err(Stop::Fail(error)) => return Err(error.into()),
            }
        }
        let accounts = match state.account(&changes, is_free) {
            Ok(accounts) => accounts,
            Err(Stop::Miss(slot)) => return miss(slot, state.evictions),
            Err(Stop::Fail(error)) => return Err(error.into()),
        };
        note(&header, &changes);
        let before = state.dirty.len();
        let changed = !changes.is_empty();
        if header != state.header {
            let next_page = state.header.next_page;
            state.header = Header {
                next_page,
                ..header
            };
            state.header_dirty = true;
        }
        let leaves = leaves.into_iter().map(Some).chain(std::iter::repeat(None));
        let done = state.apply(changes.into_iter().chain(accounts).zip(leaves));
        self.publish(&state);
        done?;
        Ok(Attempt::Done {
            value,
            changed,
            dirtied: state.dirty.len().saturating_sub(before),
        })
    }

    /// Reads a page that an operation missed.
    pub(crate) fn fetch(&self, source: &dyn PageSource, slot: u64, evictions: u64) -> Result<()> {
        let page = source.load(slot)?;
        let mut state = self.state.write();
        // A page that was evicted since may have been another one than what was read.
        if state.evictions == evictions && !state.pages.contains_key(&slot) {
            state.insert(slot, page, Status::Clean);
            if state.pages.len() > self.pages_max() {
                state.evict(self.pages_max());
            }
        }
        Ok(())
    }

    /// Says what is known of the tree without its lock.
    fn publish(&self, state: &State) {
        let dirty = state.dirty.len();
        self.dirty_pages.store(dirty, Ordering::Relaxed);
        let counts = state.header.counts_owners;
        self.counts_owners.store(counts, Ordering::Relaxed);
    }

    /// The key of the hash by which names are ordered.
    pub(crate) fn name_key(&self) -> &[u8; 32] {
        &self.name_key
    }

    /// Whether there are counts of what users and groups have.
    pub(crate) fn counts_owners(&self) -> bool {
        self.counts_owners.load(Ordering::Relaxed)
    }

    /// The header as it is now.
    pub(crate) fn header(&self) -> Header {
        self.state.read().header.clone()
    }

    /// How many pages the open transaction group has changed.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty_pages.load(Ordering::Relaxed)
    }

    /// Sets aside what the closing transaction group changed.
    pub(crate) fn freeze(&self) -> Frozen {
        let state = &mut *self.state.write();
        let mut pages = Vec::with_capacity(state.dirty.len());
        for slot in state.dirty.drain() {
            if let Some(resident) = state.pages.get_mut(&slot) {
                resident.status = Status::Syncing;
                pages.push((slot, Arc::clone(&resident.page)));
            }
        }
        self.publish(state);
        pages.sort_unstable_by_key(|(slot, _)| *slot);
        let header = std::mem::take(&mut state.header_dirty).then(|| state.header.clone());
        Frozen {
            pages,
            freed: std::mem::take(&mut state.freed),
            header,
        }
    }

    /// What was frozen is in the array.
    pub(crate) fn thaw(&self, slots: &[u64]) {
        let _use = self.begin_use();
        let mut state = self.state.write();
        for slot in slots {
            if let Some(resident) = state.pages.get_mut(slot)
                && resident.status == Status::Syncing
            {
                resident.status = Status::Clean;
            }
        }
        if state.pages.len() > self.pages_max() {
            state.evict(self.pages_max());
        }
    }
}
