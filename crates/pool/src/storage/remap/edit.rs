//! Changes of the remap table. Commits make them.

use std::collections::{BTreeMap, HashMap};
use std::ops::{ControlFlow, Range};

use store::{SegmentId, Store, UNIT};

use super::page::{self, RemapPage};
use super::table::{Remap, RemapTable, inconsistent};
use crate::error::{Error, Result};
use crate::format::records::extent::{Class, StoredExtent};
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::config::{Config, Purpose, Role};
use crate::format::superblock::root::PoolRoot;
use crate::storage::array::Overlay;
use crate::storage::array::walk::{self, Visit};
use crate::storage::writer::txg::TxgWriter;

/// The changes before a task, to undo it.
pub(crate) struct Undo(BTreeMap<u64, RemapPage>);

/// The extents that a commit frees.
struct FreedExtents {
    all: Vec<StoredExtent>,
    /// Extents whose page of the table could not be read. A later commit frees them.
    later: Vec<StoredExtent>,
    /// True if extents are given up in place of being freed later.
    gives_up: bool,
}

impl Remap {
    /// The changes of the running commit so far, for [`Remap::undo`].
    pub(crate) fn mark(&self) -> Undo {
        Undo(self.pending.lock().clone())
    }

    /// Undoes the changes since a mark.
    pub(crate) fn undo(&self, to: Undo) {
        *self.pending.lock() = to.0;
        // The counts have changes of the task. They are counted again when they are needed.
        *self.covered.lock() = None;
    }

    /// Enters the places of the copy of an extent. False if the extent has a copy already.
    pub(crate) fn enter(&self, extent: &StoredExtent, pieces: Vec<StoredExtent>) -> Result<bool> {
        let table = self.now();
        let (slot, from) = table.slot(extent).ok_or_else(no_place)?;
        let mut pending = self.pending.lock();
        let page = self.edit(&table, &mut pending, slot)?;
        if page.get(from).is_some() {
            return Ok(false);
        }
        page.insert(from, pieces);
        drop(pending);
        self.count(&table, extent, true);
        Ok(true)
    }

    /// Removes the extents that the transaction group frees from the table. Returns the extents to free in the bitmaps:
    /// the new places in case of a removed group, and the copies too in case of a group that is leaving. If a device
    /// fails to read the page of an extent, a later commit frees it.
    pub(crate) fn free(
        &self,
        commit: &TxgWriter<'_>,
        config: &Config,
        freed: Vec<StoredExtent>,
    ) -> Result<Vec<StoredExtent>> {
        let mut to_free = FreedExtents {
            all: Vec::with_capacity(freed.len()),
            later: Vec::new(),
            gives_up: commit.gives_up(),
        };
        let table = self.now();
        for extent in freed {
            self.free_one(&table, config, extent, table.moved.len() + 1, &mut to_free)?;
        }
        commit.free_later(to_free.later);
        Ok(to_free.all)
    }

    fn free_one(
        &self,
        table: &RemapTable,
        config: &Config,
        extent: StoredExtent,
        depth: usize,
        to_free: &mut FreedExtents,
    ) -> Result<()> {
        let group = u16::try_from(extent.segment.group()).unwrap_or(u16::MAX);
        let purpose = config.purpose(group);
        let has_copies = match purpose {
            Purpose::Moved => true,
            // A group that leaves from this commit on has no copies yet.
            Purpose::Leaving => table.leaving == Some(u32::from(group)),
            _ => false,
        };
        if !has_copies {
            to_free.all.push(extent);
            return Ok(());
        }
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| inconsistent("an entry leads to itself"))?;
        let pieces = match self.remove(table, &extent) {
            Ok(pieces) => pieces,
            Err(error) if error.may_pass() && !to_free.gives_up => {
                tracing::warn!(%error, ?extent, "a device failed to read a page of the remap table; the space \
                    that it names is freed later");
                to_free.later.push(extent);
                return Ok(());
            }
            Err(error) if error.is_loss() || error.may_pass() => {
                if purpose != Purpose::Moved {
                    to_free.all.push(extent);
                }
                tracing::error!(%error, ?extent, "a page of the remap table is lost; the space that it names \
                    stays allocated until the pool is destroyed");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if purpose != Purpose::Moved {
            to_free.all.push(extent);
        }
        match pieces {
            Some(pieces) => pieces
                .into_iter()
                .try_for_each(|piece| self.free_one(table, config, piece, depth, to_free)),
            None if purpose == Purpose::Moved => {
                Err(inconsistent("a place of a removed group was freed twice"))
            }
            None => Ok(()),
        }
    }

    fn remove(
        &self,
        table: &RemapTable,
        extent: &StoredExtent,
    ) -> Result<Option<Vec<StoredExtent>>> {
        let (slot, from) = table.slot(extent).ok_or_else(no_place)?;
        let mut pending = self.pending.lock();
        if !pending.contains_key(&slot) && self.page(&table.root, slot)?.is_none() {
            return Ok(None);
        }
        let removed = self.edit(table, &mut pending, slot)?.remove(from);
        drop(pending);
        if removed.is_some() {
            self.count(table, extent, false);
        }
        Ok(removed)
    }

    /// The page with the changes of the running commit, to edit.
    fn edit<'a>(
        &self,
        table: &RemapTable,
        pending: &'a mut BTreeMap<u64, RemapPage>,
        slot: u64,
    ) -> Result<&'a mut RemapPage> {
        if let std::collections::btree_map::Entry::Vacant(vacant) = pending.entry(slot) {
            let page = self.page(&table.root, slot)?;
            vacant.insert(page.map(|page| RemapPage::clone(&page)).unwrap_or_default());
        }
        Ok(pending.get_mut(&slot).expect("just inserted"))
    }

    /// Counts a copied extent of the group that is leaving.
    fn count(&self, table: &RemapTable, extent: &StoredExtent, is_copied: bool) {
        if table.leaving != Some(extent.segment.group()) {
            return;
        }
        let numbering = table.numbering.as_ref();
        let units = numbering.map_or(0, |numbering| numbering.span(extent).units);
        if let Some(covered) = &mut *self.covered.lock() {
            let count = covered.entry(extent.segment).or_default();
            *count = match is_copied {
                true => *count + units,
                false => count.saturating_sub(units),
            };
        }
    }

    /// The number of raw units with a copy in each segment of the group that is leaving. No commit may run during the
    /// call.
    pub(crate) fn covered(&self) -> Result<HashMap<SegmentId, u32>> {
        if let Some(covered) = &*self.covered.lock() {
            return Ok(covered.clone());
        }
        let table = self.now();
        let mut covered: HashMap<SegmentId, u32> = HashMap::new();
        if let (Some(group), Some(numbering)) = (table.leaving, &table.numbering) {
            self.each_entry(&table, group, &mut |extent, _| {
                let units = numbering.span(&extent).units;
                *covered.entry(extent.segment).or_default() += units;
            })?;
        }
        *self.covered.lock() = Some(covered.clone());
        Ok(covered)
    }

    /// Calls a function with each entry of a group, as of the last commit.
    fn each_entry(
        &self,
        table: &RemapTable,
        group: u32,
        each: &mut dyn FnMut(StoredExtent, &[StoredExtent]),
    ) -> Result<()> {
        let (ranges, mut at) = (table.slots(group), 0);
        while let Some(slot) = self.next(&table.root, at, &ranges)? {
            let page = self.page(&table.root, slot)?.unwrap_or_default();
            for (from, pieces) in page.entries() {
                let extent = table.extent(slot, from, page::units_of(pieces));
                each(extent.ok_or_else(no_place)?, pieces);
            }
            at = slot + 1;
        }
        Ok(())
    }

    fn next(&self, root: &RecordPtr, from: u64, ranges: &[Range<u64>]) -> Result<Option<u64>> {
        for range in ranges.iter().filter(|range| range.end > from) {
            let found = walk::next(self.plain()?, root, from.max(range.start))?;
            if let Some((slot, _)) = found.filter(|(slot, _)| *slot < range.end) {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Gives up the copies of about `pages` pages of the group that is leaving. False if there are no copies.
    pub(crate) fn give_up(&self, commit: &TxgWriter<'_>, pages: usize) -> Result<bool> {
        let table = self.now();
        let Some(group) = table.leaving else {
            return Ok(false);
        };
        let ranges = table.slots(group);
        let mut pending = self.pending.lock();
        let (mut done, mut at) = (0, 0);
        while done < pages {
            let Some(slot) = self.next(&table.root, at, &ranges)? else {
                break;
            };
            let page = self.edit(&table, &mut pending, slot)?;
            let page = std::mem::take(page);
            // Copies are never in removed groups, so their places need no look-up.
            commit.free_extents(
                page.entries()
                    .flat_map(|(_, pieces)| pieces.iter().copied()),
            );
            (done, at) = (done + 1, slot + 1);
        }
        *self.covered.lock() = None;
        Ok(done > 0)
    }

    /// Makes the commit rewrite pages that are in the group that is leaving, or whose nodes are there. False if there
    /// are none.
    pub(crate) fn leave(&self, pages: usize) -> Result<bool> {
        let table = self.now();
        let Some(group) = table.leaving else {
            return Ok(false);
        };
        let disk = self.plain()?;
        let lies_there = |ptr: &RecordPtr| ptr.place.copies().any(|a| a.segment().group() == group);
        let mut slots = Vec::new();
        let _ = walk::visit(disk, &table.root, 0, 0, &mut |visit| {
            match visit {
                Visit::Record(slot, ptr) if lies_there(ptr) => slots.push(slot),
                Visit::Node(first, ptr, _) if lies_there(ptr) => {
                    slots.extend(walk::next(disk, &table.root, first)?.map(|(slot, _)| slot));
                }
                Visit::Record(..) | Visit::Node(..) => {}
            }
            Ok(match slots.len() < pages {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        let mut pending = self.pending.lock();
        for slot in &slots {
            self.edit(&table, &mut pending, *slot)?;
        }
        Ok(!slots.is_empty())
    }

    /// Writes the pages that the commit has changed. Forgets removed groups without entries. Returns whether the
    /// configuration changed because of this.
    pub(crate) fn write(
        &self,
        commit: &TxgWriter<'_>,
        root: &mut PoolRoot,
        config: &mut Config,
    ) -> Result<bool> {
        let pending = std::mem::take(&mut *self.pending.lock());
        let has_moved = config.purposes().take(config.roles.len());
        let has_moved = has_moved
            .into_iter()
            .any(|purpose| purpose == Purpose::Moved);
        if pending.is_empty() && !has_moved {
            return Ok(false);
        }
        let table = self.now();
        let disk = &commit.core.disk;
        let mut overlay = Overlay::default();
        let mut pages = root.remap_pages.get();
        for (slot, page) in pending {
            let was_there = !walk::get(self.plain()?, &table.root, slot)?.is_empty();
            let ptr = match page.is_empty() {
                true => RecordPtr::EMPTY,
                false => {
                    let bytes = page.encode(&disk.bounds());
                    commit.place_record(Class::Meta, bytes.ok_or_else(no_place)?)?
                }
            };
            pages = pages.saturating_add(u64::from(!page.is_empty()));
            pages = pages.saturating_sub(u64::from(was_there));
            overlay.put(slot, ptr);
        }
        root.remap_pages = pages.into();
        root.remap = commit.update_pool_array(Class::Meta, &root.remap, &overlay)?;
        let mut is_changed = false;
        for group in 0..config.roles.len() as u16 {
            // A checkpoint may still need the entries of the group.
            if config.purpose(group) != Purpose::Moved || root.has_checkpoint() {
                continue;
            }
            let mut is_empty = true;
            for range in table.slots(group.into()) {
                let next = walk::next(disk, &root.remap, range.start)?;
                is_empty &= next.is_none_or(|(slot, _)| slot >= range.end);
            }
            if is_empty {
                let purpose = Purpose::Gone;
                let segments = config.roles[usize::from(group)].segments;
                config.set_role(group, Role { purpose, segments });
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// The number of raw units with a copy in the group that is leaving, as far as they are counted.
    pub(crate) fn copied_units(&self) -> u64 {
        let covered = self.covered.lock();
        let counts = covered.iter().flat_map(|counts| counts.values());
        counts.map(|count| u64::from(*count)).sum()
    }

    /// The space that the table may need for `units` units of a group.
    pub(crate) fn space_for(&self, store: &Store, group: u16, units: u64) -> u64 {
        let segment_units = store.segment_size() / UNIT;
        let segments = store.groups()[usize::from(group)];
        let all = u64::from(segments) * u64::from(segment_units);
        let pages = all / u64::from(page::units_of_page(segment_units));
        self.space(pages.min(units), segment_units)
    }

    /// The space that a commit may need to rewrite the whole table.
    pub(crate) fn space(&self, pages: u64, segment_units: u32) -> u64 {
        pages.saturating_mul(page::space_for_page(segment_units))
    }
}

fn no_place() -> Error {
    inconsistent("a place that does not exist is looked up")
}
