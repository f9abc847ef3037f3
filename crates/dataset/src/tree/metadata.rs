//! The metadata tree: one ordered map from keys to values for each dataset.
//!
//! It is a B+tree. Its pages are records in slots of the array `pages`, and refer to each other by slot number. The
//! array does versions, copy-on-write and places. Operations use pages in memory in place. A commit shares the pages
//! that it writes; a page is copied when it changes again during the commit.
//!
//! No thread waits for a device under the lock of the tree. If an operation needs a page that is not in memory, it
//! stops with [`TreeStop::Miss`]. The page is read without the lock, and the operation starts again. To make this safe, an
//! operation only collects its changes, and the tree applies them at the end, all or none ([`TreeWriter`]).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::header::Header;
use super::page::{PageKind, TreePage};
use super::reader::{TreeReader, TreeWriter};
use super::state::{PageStatus, State, TreePages};
use super::step::{TreeAttempt, TreeStep, TreeStop};
use super::view::Changes;
use crate::error::Result;
use crate::layout::ROOT_SLOT;

/// A source of pages.
pub(crate) trait PageSource {
    /// Reads the page in a slot.
    fn load(&self, slot: u64) -> Result<TreePage>;
}

/// The tree of a dataset.
pub(crate) struct MetadataTree {
    pub(super) state: RwLock<State>,
    /// The largest number of clean pages in memory.
    pages_max: usize,
    /// True if clean pages leave memory as soon as no thread uses the tree.
    is_uncached: AtomicBool,
    /// The number of threads that use an uncached tree.
    users: AtomicUsize,
    /// [`Header::name_key`], which never changes.
    name_key: [u8; 32],
    /// The number of dirty pages, readable without the lock.
    dirty_pages: AtomicUsize,
    /// [`Header::counts_owners`], readable without the lock.
    counts_owners: AtomicBool,
}

/// An uncached tree keeps at most this many clean pages while it is in use.
const UNCACHED_PAGES: usize = 1024;

/// A use of the tree. While it exists, clean pages stay in memory. An operation needs the pages that it has read when
/// it starts again.
pub(crate) struct Use<'a>(Option<&'a MetadataTree>);

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

/// The changes of a transaction group to the tree.
pub(crate) struct FrozenTree {
    /// Pages to put.
    pub(crate) pages: Vec<(u64, Arc<TreePage>)>,
    /// Slots to empty.
    pub(crate) freed: Vec<u64>,
    pub(crate) header: Header,
    /// True if the header changed.
    pub(crate) is_header_new: bool,
}

impl MetadataTree {
    /// An existing tree, with its header.
    pub(crate) fn open(header: Header, pages_max: usize) -> MetadataTree {
        MetadataTree {
            name_key: header.name_key,
            dirty_pages: AtomicUsize::new(0),
            counts_owners: AtomicBool::new(header.counts_owners),
            state: RwLock::new(State {
                pages: TreePages::default(),
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

    /// Sets whether the tree keeps clean pages only as long as a thread uses it.
    pub(crate) fn set_uncached(&self, is_uncached: bool) {
        self.is_uncached.store(is_uncached, Ordering::Release);
        drop(self.begin_use());
    }

    /// Begins a use. Hold it through all tries of an operation.
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

    /// The number of clean pages in memory.
    #[cfg(test)]
    pub(crate) fn clean_pages(&self) -> usize {
        let state = self.state.read();
        let pages = state.pages.values();
        pages
            .filter(|page| page.status == PageStatus::Clean)
            .count()
    }

    /// An empty tree.
    pub(crate) fn create(header: Header, pages_max: usize) -> MetadataTree {
        let tree = MetadataTree::open(header, pages_max);
        {
            let mut state = tree.state.write();
            state.header_dirty = true;
            state.add(ROOT_SLOT, TreePage::new(PageKind::Leaf));
            tree.publish(&state);
        }
        tree
    }

    /// Runs a reading operation, from the start again whenever it needs a page.
    pub(crate) fn read<T>(
        &self,
        source: &dyn PageSource,
        mut operation: impl FnMut(&TreeReader<'_>) -> TreeStep<T>,
    ) -> Result<T> {
        let _use = self.begin_use();
        loop {
            let state = self.state.read();
            let slot = match operation(&TreeReader::new(&state)) {
                Ok(value) => return Ok(value),
                Err(TreeStop::Fail(error)) => return Err(error.into()),
                Err(TreeStop::Miss(slot)) => slot,
            };
            let evictions = state.evictions;
            drop(state);
            self.fetch(source, slot, evictions)?;
        }
    }

    /// Runs one try of a changing operation. [`TreeAttempt::Miss`] asks the caller to [`MetadataTree::fetch`] a page, outside of
    /// the transaction group, and to try again. Calls `note` with the changes before they are applied, in the order of
    /// changes. Enforces quotas of users and groups, unless `is_free`.
    pub(crate) fn try_write<T>(
        &self,
        txg: u64,
        is_free: bool,
        operation: &mut dyn FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
        note: &dyn Fn(&Header, &Changes),
    ) -> Result<TreeAttempt<T>> {
        let mut state = self.state.write();
        let mut writer = TreeWriter {
            header: state.header.clone(),
            txg,
            before: TreeReader::new(&state),
            changes: Changes::new(),
        };
        let miss = |slot, evictions| Ok(TreeAttempt::Miss { slot, evictions });
        let value = match operation(&mut writer) {
            Ok(value) => value,
            Err(TreeStop::Fail(error)) => return Err(error.into()),
            Err(TreeStop::Miss(slot)) => return miss(slot, state.evictions),
        };
        let TreeWriter {
            header,
            changes,
            before,
            ..
        } = writer;
        let mut leaves = Vec::with_capacity(changes.len());
        for key in changes.keys() {
            match before.leaf(key) {
                Ok(leaf) => leaves.push(leaf.slot),
                Err(TreeStop::Miss(slot)) => return miss(slot, state.evictions),
                // The key may be below pages that form a circle in a damaged tree.
                Err(TreeStop::Fail(error)) => return Err(error.into()),
            }
        }
        let accounts = match state.account(&changes, is_free) {
            Ok(accounts) => accounts,
            Err(TreeStop::Miss(slot)) => return miss(slot, state.evictions),
            Err(TreeStop::Fail(error)) => return Err(error.into()),
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
        Ok(TreeAttempt::Done {
            value,
            changed,
            dirtied: state.dirty.len().saturating_sub(before),
        })
    }

    /// Reads a page that an operation missed.
    pub(crate) fn fetch(&self, source: &dyn PageSource, slot: u64, evictions: u64) -> Result<()> {
        let page = source.load(slot)?;
        let mut state = self.state.write();
        // If pages were evicted since, the page may have changed after it was read.
        if state.evictions == evictions && !state.pages.contains_key(&slot) {
            state.insert(slot, page, PageStatus::Clean);
            if state.pages.len() > self.pages_max() {
                state.evict(self.pages_max());
            }
        }
        Ok(())
    }

    /// Updates the values that are readable without the lock.
    fn publish(&self, state: &State) {
        let dirty = state.dirty.len();
        self.dirty_pages.store(dirty, Ordering::Relaxed);
        let counts = state.header.counts_owners;
        self.counts_owners.store(counts, Ordering::Relaxed);
    }

    /// The key of the hash that orders names.
    pub(crate) fn name_key(&self) -> &[u8; 32] {
        &self.name_key
    }

    /// Returns whether the tree has accounts of users and groups.
    pub(crate) fn counts_owners(&self) -> bool {
        self.counts_owners.load(Ordering::Relaxed)
    }

    pub(crate) fn header(&self) -> Header {
        self.state.read().header.clone()
    }

    /// The number of pages that the open transaction group has changed.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty_pages.load(Ordering::Relaxed)
    }

    /// Takes the changes of the closing transaction group.
    pub(crate) fn freeze(&self) -> FrozenTree {
        let state = &mut *self.state.write();
        let mut pages = Vec::with_capacity(state.dirty.len());
        for slot in state.dirty.drain() {
            if let Some(resident) = state.pages.get_mut(&slot) {
                resident.status = PageStatus::Syncing;
                pages.push((slot, Arc::clone(&resident.page)));
            }
        }
        self.publish(state);
        pages.sort_unstable_by_key(|(slot, _)| *slot);
        FrozenTree {
            pages,
            freed: std::mem::take(&mut state.freed),
            header: state.header.clone(),
            is_header_new: std::mem::take(&mut state.header_dirty),
        }
    }

    /// Makes sure that a page of the history of seals has a slot. Returns the slot, and a `frozen` header that says so.
    pub(crate) fn seal_slot(&self, page: u64, frozen: &Header) -> (Option<u64>, Header) {
        let state = &mut *self.state.write();
        let Header {
            seal_runs,
            next_page,
            ..
        } = &mut state.header;
        let before = *next_page;
        *next_page = seal_runs.begin(page, before);
        state.header_dirty |= *next_page != before;
        let header = Header {
            seal_runs: *seal_runs,
            next_page: *next_page,
            ..frozen.clone()
        };
        (seal_runs.slot(page), header)
    }

    /// Called when the frozen pages are in the array.
    pub(crate) fn thaw(&self, slots: &[u64]) {
        let _use = self.begin_use();
        let mut state = self.state.write();
        for slot in slots {
            if let Some(resident) = state.pages.get_mut(slot)
                && resident.status == PageStatus::Syncing
            {
                resident.status = PageStatus::Clean;
            }
        }
        if state.pages.len() > self.pages_max() {
            state.evict(self.pages_max());
        }
    }
}
