//! Reading the tree, and collecting what is to change in it.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::header::Header;
use super::owners::{Owner, Usage};
use super::page::{CELL_MAX, Page, PageKind};
use super::state::State;
use super::step::Step;
use super::view::{Changes, View};
use crate::layout::ROOT_SLOT;

/// Reads the tree.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(super) state: &'a State,
}

impl<'a> Reader<'a> {
    /// The leaf where a key is, or would be.
    pub(super) fn leaf(&self, key: &[u8]) -> Step<&'a Page> {
        let (mut slot, mut page) = (ROOT_SLOT, self.state.page(ROOT_SLOT)?);
        let mut depth = 0;
        while page.kind() == PageKind::Inner {
            depth += 1;
            let index = page.child_index(key);
            (slot, page) = self.state.child(slot, page, index, depth)?;
        }
        Ok(page)
    }

    /// The last entry whose key is below `key`, or is it if `or_equal`.
    fn last_below(
        &self,
        (slot, page, depth): (u64, &'a Page, usize),
        key: &[u8],
        or_equal: bool,
    ) -> Step<Option<(&'a [u8], &'a [u8])>> {
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
        (slot, page, depth): (u64, &'a Page, usize),
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Step<bool> {
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

impl View for Reader<'_> {
    fn get(&self, key: &[u8]) -> Step<Option<&[u8]>> {
        let leaf = self.leaf(key)?;
        Ok(leaf.search(key).ok().map(|index| leaf.value(index)))
    }

    fn floor(&self, key: &[u8]) -> Step<Option<(&[u8], &[u8])>> {
        self.last_below((ROOT_SLOT, self.state.page(ROOT_SLOT)?, 0), key, true)
    }

    fn scan(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Step<()> {
        self.scan_below((ROOT_SLOT, self.state.page(ROOT_SLOT)?, 0), from, each)
            .map(|_| ())
    }
}

/// Reads the tree and collects changes, which are applied together at the end. What it has changed
/// it reads back changed.
pub(crate) struct Writer<'a> {
    pub(super) before: Reader<'a>,
    /// Counters of the dataset, to be changed in place; `next_page` is the tree's own.
    pub(crate) header: Header,
    /// The transaction group that the changes belong to.
    pub(crate) txg: u64,
    pub(super) changes: Changes,
}

impl Writer<'_> {
    /// Sets a key.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        assert!(
            key.len() + value.len() <= CELL_MAX,
            "a cell is no longer than CELL_MAX"
        );
        self.changes.insert(key, Some(value));
    }

    /// See [`Reader::recounted`].
    pub(crate) fn recounted(&self) -> Option<&BTreeMap<Owner, Usage>> {
        self.before.recounted()
    }

    /// Removes a key, if it is there.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.changes.insert(key, None);
    }
}

impl View for Writer<'_> {
    fn get(&self, key: &[u8]) -> Step<Option<&[u8]>> {
        match self.changes.get(key) {
            Some(value) => Ok(value.as_deref()),
            None => self.before.get(key),
        }
    }

    fn floor(&self, key: &[u8]) -> Step<Option<(&[u8], &[u8])>> {
        let root = (ROOT_SLOT, self.before.state.page(ROOT_SLOT)?, 0);
        let mut before = self.before.last_below(root, key, true)?;
        while let Some((at, _)) = before.filter(|(at, _)| self.changes.contains_key(*at)) {
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

    fn scan(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Step<()> {
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
