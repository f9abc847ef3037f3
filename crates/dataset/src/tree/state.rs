//! The pages of a tree in memory.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::header::Header;
use super::owners::Recount;
use super::page::TreePage;
use super::step::{TreeStep, TreeStop};
use crate::layout::ROOT_SLOT;

/// The largest depth of a tree: pages have dozens of children.
const DEPTH_MAX: usize = 32;

/// Pages by slot. The hash is fixed, so that evictions are the same in each run of a seed.
pub(super) type TreePages = HashMap<u64, Resident, BuildHasherDefault<DefaultHasher>>;

/// The pages of a tree that are in memory.
pub(super) struct State {
    pub(super) pages: TreePages,
    pub(super) header: Header,
    pub(super) header_dirty: bool,
    pub(super) dirty: HashSet<u64>,
    /// Slots of pages that were freed since the last freeze.
    pub(super) freed: Vec<u64>,
    /// Counts evictions, so that a page that was read before an eviction is not taken for the current one.
    pub(super) evictions: u64,
    /// The running count of users and groups.
    pub(super) recount: Option<Recount>,
}

/// A page in memory.
pub(super) struct Resident {
    pub(super) page: Arc<TreePage>,
    pub(super) status: PageStatus,
    pub(super) used: AtomicBool,
    /// The parent page, once it is known; 0 before. A second parent is refused: it would make a cycle, or a page that
    /// is freed while another page still points to it.
    pub(super) parent: AtomicU64,
}

/// The state of a page, compared with the array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PageStatus {
    Clean,
    /// Changed in the open transaction group.
    Dirty,
    /// Changed in the transaction group that is being written, and not since.
    Syncing,
}

impl State {
    /// A value that changes with each page that is added or freed.
    pub(super) fn pages_made(&self) -> (u64, u64) {
        (self.evictions, self.header.next_page)
    }

    pub(super) fn page(&self, slot: u64) -> TreeStep<&TreePage> {
        let resident = self.pages.get(&slot).ok_or(TreeStop::Miss(slot))?;
        if !resident.used.load(Ordering::Relaxed) {
            resident.used.store(true, Ordering::Relaxed);
        }
        Ok(&resident.page)
    }

    /// A child of the inner page in `parent`, `depth` pages below the root.
    pub(super) fn child(
        &self,
        parent: u64,
        page: &TreePage,
        index: usize,
        depth: usize,
    ) -> TreeStep<(u64, &TreePage)> {
        let slot = page.child(index);
        let child = self.page(slot)?;
        let known = &self.pages[&slot].parent;
        let above = known.load(Ordering::Relaxed);
        if above == 0 {
            known.store(parent, Ordering::Relaxed);
        }
        let is_own = above == 0 || above == parent;
        if !is_own || slot <= ROOT_SLOT || depth > DEPTH_MAX {
            return Err(vfs::Error::Io.into());
        }
        Ok((slot, child))
    }

    pub(super) fn insert(&mut self, slot: u64, page: TreePage, status: PageStatus) {
        self.pages.insert(
            slot,
            Resident {
                page: Arc::new(page),
                status,
                used: AtomicBool::new(true),
                parent: AtomicU64::new(0),
            },
        );
    }

    /// Drops an eighth of the clean pages if there are more than `max`, first those that were not used since the
    /// last call.
    pub(super) fn evict(&mut self, max: usize) {
        let clean = self
            .pages
            .values()
            .filter(|page| page.status == PageStatus::Clean)
            .count();
        if clean <= max {
            return;
        }
        let mut excess = clean - (max - max / 8);
        let before = self.pages.len();
        for second_look in [false, true] {
            self.pages.retain(|slot, resident| {
                let used = std::mem::take(resident.used.get_mut());
                let keep = excess == 0
                    || resident.status != PageStatus::Clean
                    || *slot == ROOT_SLOT
                    || used && !second_look;
                excess -= usize::from(!keep);
                keep
            });
        }
        if self.pages.len() < before {
            self.evictions += 1;
        }
    }

    /// Drops all clean pages.
    pub(super) fn evict_all(&mut self) {
        let before = self.pages.len();
        self.pages
            .retain(|_, resident| resident.status != PageStatus::Clean);
        if self.pages.len() < before {
            self.evictions += 1;
        }
    }
}
