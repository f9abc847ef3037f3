//! Reads the tree, and collects changes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::header::Header;
use super::owners::{Owner, Usage};
use super::page::{CELL_MAX, PageKind, TreePage};
use super::state::State;
use super::step::TreeStep;
use super::view::{Changes, TreeView};
use crate::layout::ROOT_SLOT;

/// Reads the tree. The keys of a file are together, so each search begins at the last leaf.
pub(crate) struct TreeReader<'a> {
    pub(super) state: &'a State,
    last: Cell<Option<Leaf<'a>>>,
}

/// A leaf, and the range of its keys: from `from` on, and below `before`.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    pub(super) slot: u64,
    page: &'a TreePage,
    from: &'a [u8],
    before: Option<&'a [u8]>,
}

impl<'a> Leaf<'a> {
    fn takes(&self, key: &[u8]) -> bool {
        self.from <= key && self.before.is_none_or(|before| key < before)
    }
}

impl<'a> TreeReader<'a> {
    pub(super) fn new(state: &'a State) -> TreeReader<'a> {
        let last = Cell::new(None);
        TreeReader { state, last }
    }

    /// The leaf that covers a key.
    pub(super) fn leaf(&self, key: &[u8]) -> TreeStep<Leaf<'a>> {
        if let Some(leaf) = self.last.get().filter(|leaf| leaf.takes(key)) {
            return Ok(leaf);
        }
        let leaf = self.descend(key)?;
        self.last.set(Some(leaf));
        Ok(leaf)
    }

    fn descend(&self, key: &[u8]) -> TreeStep<Leaf<'a>> {
        #[cfg(test)]
        DESCENTS.set(DESCENTS.get() + 1);
        let mut leaf = Leaf {
            slot: ROOT_SLOT,
            page: self.state.page(ROOT_SLOT)?,
            from: &[],
            before: None,
        };
        let mut depth = 0;
        while leaf.page.kind() == PageKind::Inner {
            depth += 1;
            let (page, index) = (leaf.page, leaf.page.child_index(key));
            if index > 0 {
                leaf.from = leaf.from.max(page.key(index));
            }
            if index + 1 < page.len() {
                let next = page.key(index + 1);
                leaf.before = Some(leaf.before.map_or(next, |before| before.min(next)));
            }
            (leaf.slot, leaf.page) = self.state.child(leaf.slot, page, index, depth)?;
        }
        Ok(leaf)
    }

    /// The last entry whose key is below `key`, or equal to it if `or_equal`.
    fn last_below(
        &self,
        (slot, page, depth): (u64, &'a TreePage, usize),
        key: &[u8],
        or_equal: bool,
    ) -> TreeStep<Option<(&'a [u8], &'a [u8])>> {
        if page.kind() == PageKind::Leaf {
            let end = match page.search(key) {
                Ok(index) => index + usize::from(or_equal),
                Err(index) => index,
            };
            return Ok(end
                .checked_sub(1)
                .map(|index| (page.key(index), page.value(index))));
        }
        for index in (0..=page.child_index(key)).rev() {
            let (slot, child) = self.state.child(slot, page, index, depth + 1)?;
            let found = self.last_below((slot, child, depth + 1), key, or_equal)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn scan_below(
        &self,
        (slot, page, depth): (u64, &'a TreePage, usize),
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> TreeStep<bool> {
        if page.kind() == PageKind::Leaf {
            let first = page.search(from).unwrap_or_else(|index| index);
            let mut entries = (first..page.len()).map(|i| (page.key(i), page.value(i)));
            return Ok(entries.all(|(key, value)| each(key, value)));
        }
        for index in page.child_index(from)..page.len() {
            let (slot, child) = self.state.child(slot, page, index, depth + 1)?;
            if !self.scan_below((slot, child, depth + 1), from, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl TreeView for TreeReader<'_> {
    fn get(&self, key: &[u8]) -> TreeStep<Option<&[u8]>> {
        let page = self.leaf(key)?.page;
        Ok(page.search(key).ok().map(|index| page.value(index)))
    }

    fn floor(&self, key: &[u8]) -> TreeStep<Option<(&[u8], &[u8])>> {
        let page = self.leaf(key)?.page;
        let end = page
            .search(key)
            .map_or_else(|index| index, |index| index + 1);
        if let Some(index) = end.checked_sub(1) {
            return Ok(Some((page.key(index), page.value(index))));
        }
        self.last_below((ROOT_SLOT, self.state.page(ROOT_SLOT)?, 0), key, true)
    }

    fn scan(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> TreeStep<()> {
        let leaf = self.leaf(from)?;
        let first = leaf.page.search(from).unwrap_or_else(|index| index);
        for index in first..leaf.page.len() {
            if !each(leaf.page.key(index), leaf.page.value(index)) {
                return Ok(());
            }
        }
        match leaf.before {
            Some(next) => {
                let root = (ROOT_SLOT, self.state.page(ROOT_SLOT)?, 0);
                self.scan_below(root, next, each).map(|_| ())
            }
            None => Ok(()),
        }
    }
}

/// Reads the tree and collects changes. All changes are applied together at the end. Reads see the collected changes.
pub(crate) struct TreeWriter<'a> {
    pub(super) before: TreeReader<'a>,
    /// The counters of the dataset, to be changed in place. Only the tree changes `next_page`.
    pub(crate) header: Header,
    /// The transaction group that the changes belong to.
    pub(crate) txg: u64,
    pub(super) changes: Changes,
}

impl TreeWriter<'_> {
    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        assert!(
            key.len() + value.len() <= CELL_MAX,
            "a cell is no longer than CELL_MAX"
        );
        self.changes.insert(key, Some(value));
    }

    /// See [`TreeReader::recounted`].
    pub(crate) fn recounted(&self) -> Option<&BTreeMap<Owner, Usage>> {
        self.before.recounted()
    }

    /// Removes a key, if it is there.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.changes.insert(key, None);
    }
}

impl TreeView for TreeWriter<'_> {
    fn get(&self, key: &[u8]) -> TreeStep<Option<&[u8]>> {
        match self.changes.get(key) {
            Some(value) => Ok(value.as_deref()),
            None => self.before.get(key),
        }
    }

    fn floor(&self, key: &[u8]) -> TreeStep<Option<(&[u8], &[u8])>> {
        let mut before = self.before.floor(key)?;
        while let Some((at, _)) = before.filter(|(at, _)| self.changes.contains_key(*at)) {
            let root = (ROOT_SLOT, self.before.state.page(ROOT_SLOT)?, 0);
            before = self.before.last_below(root, at, false)?;
        }
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let changed = self
            .changes
            .range::<[u8], _>(up_to)
            .rev()
            .find_map(|(key, value)| Some((&key[..], value.as_deref()?)));
        Ok(before
            .into_iter()
            .chain(changed)
            .max_by_key(|(key, _)| *key))
    }

    fn scan(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> TreeStep<()> {
        let mut changed = self
            .changes
            .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
            .peekable();
        let mut go_on = true;
        self.before.scan(from, &mut |key, value| {
            while let Some((changed, new)) = changed.next_if(|(changed, _)| &changed[..] < key) {
                go_on = go_on && new.as_ref().is_none_or(|new| each(changed, new));
            }
            let same = changed.next_if(|(changed, _)| &changed[..] == key);
            go_on = go_on
                && match same {
                    Some((_, new)) => new.as_ref().is_none_or(|new| each(key, new)),
                    None => each(key, value),
                };
            go_on
        })?;
        for (key, new) in changed {
            go_on = go_on && new.as_ref().is_none_or(|new| each(key, new));
        }
        Ok(())
    }
}

#[cfg(test)]
thread_local! {
    /// The number of descents of this thread from a root to a leaf.
    pub(super) static DESCENTS: Cell<u64> = const { Cell::new(0) };
}
