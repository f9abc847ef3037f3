//! Changes the tree: splits pages that overflow, merges pages that become too empty, and frees empty pages.
//!
//! The caller makes sure that all pages on the path to a changed leaf are in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::page::{PAGE, PageKind, TreePage, cell_size};
use super::reader::TreeReader;
use super::state::{PageStatus, Resident, State};
use crate::layout::ROOT_SLOT;

/// A leaf with fewer bytes than this is merged with a neighbour.
const MERGE_BELOW: usize = PAGE / 4;
/// Two leaves are merged if they have at most this many bytes together.
const MERGED_MAX: usize = PAGE / 4 * 3;

/// The result of a split: the least key of the new page, and its slot.
type SplitPage = Option<(Vec<u8>, u64)>;

impl State {
    fn resident(&self, slot: u64) -> &TreePage {
        &self.pages[&slot].page
    }

    /// A page to change. If a commit is writing it, this is a copy.
    fn change(&mut self, slot: u64) -> &mut TreePage {
        self.dirty.insert(slot);
        let resident = self
            .pages
            .get_mut(&slot)
            .expect("pages on the way are in memory");
        resident.status = PageStatus::Dirty;
        Arc::make_mut(&mut resident.page)
    }

    /// Adds a page that did not exist.
    pub(super) fn add(&mut self, slot: u64, page: TreePage) {
        self.insert(slot, page, PageStatus::Dirty);
        self.dirty.insert(slot);
    }

    fn add_new(&mut self, page: TreePage) -> u64 {
        let slot = self.header.next_page;
        self.header.next_page += 1;
        self.header_dirty = true;
        self.adopt(slot, &page);
        self.add(slot, page);
        slot
    }

    /// Sets the parent of all children of a page to this slot.
    fn adopt(&mut self, slot: u64, page: &TreePage) {
        if page.kind() == PageKind::Leaf {
            return;
        }
        for index in 0..page.len() {
            if let Some(child) = self.pages.get_mut(&page.child(index)) {
                *child.parent.get_mut() = slot;
            }
        }
    }

    fn free(&mut self, slot: u64) {
        self.pages.remove(&slot);
        self.dirty.remove(&slot);
        self.freed.push(slot);
        // A thread that is reading this page from the pool reads freed contents.
        self.evictions += 1;
    }

    /// Applies changes. Each comes with the leaf of its key, if that is known.
    pub(super) fn apply(
        &mut self,
        changes: impl Iterator<Item = ((Vec<u8>, Option<Vec<u8>>), Option<u64>)>,
    ) -> vfs::Result<()> {
        let pages = self.pages_made();
        for ((key, value), leaf) in changes {
            // The leaf of a key stays the same as long as no page is added or freed. After that, the leaf is looked up
            // again. This fails only in a damaged tree.
            let leaf = leaf.filter(|_| self.pages_made() == pages);
            if self.pages_made() != pages && TreeReader::new(self).leaf(&key).is_err() {
                return Err(vfs::Error::Io);
            }
            match value {
                Some(value) if leaf.is_some_and(|leaf| self.put_in(leaf, &key, &value)) => {}
                Some(value) => self.put(&key, &value),
                None => self.delete(&key),
            }
        }
        Ok(())
    }

    /// Sets a key in its leaf. False if this needs another page.
    pub(super) fn put_in(&mut self, leaf: u64, key: &[u8], value: &[u8]) -> bool {
        let page = self.resident(leaf);
        match page.search(key) {
            Ok(index) if page.value(index) == value => true,
            Ok(index) if page.value(index).len() == value.len() => {
                self.change(leaf).replace(index, value)
            }
            Err(index) if page.fits(key, value) => {
                self.change(leaf).insert(index, key, value);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        if let Some((separator, slot)) = self.put_below(ROOT_SLOT, key, value) {
            self.grow(&separator, slot);
        }
    }

    fn put_below(&mut self, slot: u64, key: &[u8], value: &[u8]) -> SplitPage {
        let page = self.resident(slot);
        if page.kind() == PageKind::Leaf {
            return match page.search(key) {
                Ok(index) => self.replace(slot, index, key, value),
                Err(index) => self.insert_cell(slot, index, key, value),
            };
        }
        let index = page.child_index(key);
        let child = page.child(index);
        let (separator, new) = self.put_below(child, key, value)?;
        if index == 0 && self.resident(slot).key(0) >= &separator[..] {
            // The first key of an inner page counts as less than all keys. Now it must really be less.
            let page = self.change(slot);
            page.remove(0);
            page.insert(0, b"", &child.to_le_bytes());
        }
        self.insert_cell(slot, index + 1, &separator, &new.to_le_bytes())
    }

    fn replace(&mut self, slot: u64, index: usize, key: &[u8], value: &[u8]) -> SplitPage {
        if self.resident(slot).value(index) == value || self.change(slot).replace(index, value) {
            return None;
        }
        self.insert_cell(slot, index, key, value)
    }

    fn insert_cell(&mut self, slot: u64, index: usize, key: &[u8], value: &[u8]) -> SplitPage {
        let page = self.change(slot);
        if page.fits(key, value) {
            page.insert(index, key, value);
            return None;
        }
        let mut upper = page.split(index, cell_size(key, value));
        if upper.len() == 0 || index > page.len() {
            upper.insert(index - page.len(), key, value);
        } else {
            page.insert(index, key, value);
        }
        let separator = upper.key(0).to_vec();
        Some((separator, self.add_new(upper)))
    }

    /// Adds a level below the root.
    fn grow(&mut self, separator: &[u8], upper: u64) {
        let lower = self.resident(ROOT_SLOT).clone();
        let lower = self.add_new(lower);
        let root = self.change(ROOT_SLOT);
        *root = TreePage::new(PageKind::Inner);
        root.insert(0, b"", &lower.to_le_bytes());
        root.insert(1, separator, &upper.to_le_bytes());
    }

    /// Removes a key, if it is there.
    pub(super) fn delete(&mut self, key: &[u8]) {
        self.delete_below(ROOT_SLOT, key);
        self.shrink();
    }

    fn delete_below(&mut self, slot: u64, key: &[u8]) {
        let page = self.resident(slot);
        if page.kind() == PageKind::Leaf {
            if let Ok(index) = page.search(key) {
                self.change(slot).remove(index);
            }
            return;
        }
        let index = page.child_index(key);
        let child = page.child(index);
        self.delete_below(child, key);
        let child_page = self.resident(child);
        if child_page.len() == 0 {
            self.change(slot).remove(index);
            self.free(child);
        } else if child_page.kind() == PageKind::Leaf && child_page.used() < MERGE_BELOW {
            self.merge(slot, index);
        }
    }

    /// Merges a leaf with a neighbour that is in memory, if both fit on one page.
    fn merge(&mut self, parent: u64, index: usize) {
        let page = self.resident(parent);
        let pairs = [(index, index + 1), (index.wrapping_sub(1), index)];
        let found = pairs.into_iter().find(|(left, right)| {
            if *left >= page.len() || *right >= page.len() {
                return false;
            }
            let own = |r: &&Resident| {
                let above = r.parent.load(Ordering::Relaxed);
                r.page.kind() == PageKind::Leaf && (above == 0 || above == parent)
            };
            let found = |i: usize| self.pages.get(&page.child(i)).filter(own);
            let used = |i: usize| found(i).map(|r| r.page.used());
            matches!((used(*left), used(*right)), (Some(l), Some(r)) if l + r <= MERGED_MAX)
        });
        let Some((left, right)) = found else { return };
        let (left_slot, right_slot) = (page.child(left), page.child(right));
        let right_page = Arc::clone(&self.pages[&right_slot].page);
        self.change(left_slot).append(&right_page);
        self.change(parent).remove(right);
        self.free(right_slot);
    }

    /// Removes levels below the root that have only one page.
    fn shrink(&mut self) {
        loop {
            let root = self.resident(ROOT_SLOT);
            if root.kind() == PageKind::Leaf {
                return;
            }
            let replacement = match root.len() {
                0 => TreePage::new(PageKind::Leaf),
                1 => match self.pages.get(&root.child(0)) {
                    Some(only) => only.page.as_ref().clone(),
                    None => return,
                },
                _ => return,
            };
            let only = (root.len() == 1).then(|| root.child(0));
            self.adopt(ROOT_SLOT, &replacement);
            *self.change(ROOT_SLOT) = replacement;
            if let Some(only) = only {
                self.free(only);
            }
        }
    }
}
