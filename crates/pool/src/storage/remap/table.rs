//! The remap table as the last commit left it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use store::{SegmentId, Store, UNIT};

use super::page::{self, RemapPage};
use crate::error::{Error, Result};
use crate::format::records::extent::StoredExtent;
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::config::{Config, Purpose};
use crate::storage::array::walk;
use crate::storage::gang::Bounds;
use crate::storage::nodes::Nodes;
use crate::storage::space::Numbering;

/// Pages of the table kept in memory.
const CACHED_PAGES: usize = 4096;

/// Reads the table. It is never in a removed group, so this reader needs no remapping.
pub(crate) trait TableReader: Nodes + Send + Sync {
    /// The bounds of the pool.
    fn bounds(&self) -> Arc<Bounds>;

    /// The store has more groups than before.
    fn grow(&self);

    /// Returns whether a bad copy was found since the last call.
    fn had_errors(&self) -> bool;
}

/// The remap table of a pool.
pub(crate) struct Remap {
    /// The table of the last commit.
    pub(super) table: RwLock<Arc<RemapTable>>,
    /// True if the table has entries, or will soon have some.
    pub(super) is_used: AtomicBool,
    pub(super) plain: OnceLock<Box<dyn TableReader>>,
    /// Pages by the checksums of their records.
    pub(super) pages: Cache<[u8; 16], Arc<RemapPage>>,
    /// Pages that the running commit has changed.
    pub(super) pending: Mutex<BTreeMap<u64, RemapPage>>,
    /// The number of raw units with a copy in each segment of the group that is leaving; `None` before they are
    /// counted.
    pub(super) covered: Mutex<Option<HashMap<SegmentId, u32>>>,
    /// Counts the changes after which a place that was looked up earlier may be wrong.
    pub(super) generation: AtomicU64,
}

/// The table as of a commit.
pub(super) struct RemapTable {
    pub(super) root: RecordPtr,
    pub(super) numbering: Option<Numbering>,
    pub(super) segment_units: u32,
    /// For each group: whether it was removed, so that its places are looked up here.
    pub(super) moved: Vec<bool>,
    /// The group whose contents are being copied.
    pub(super) leaving: Option<u32>,
}

impl Default for Remap {
    fn default() -> Remap {
        Remap {
            table: RwLock::default(),
            is_used: AtomicBool::new(false),
            plain: OnceLock::new(),
            pages: Cache::new(CACHED_PAGES),
            pending: Mutex::default(),
            covered: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }
}

impl Default for RemapTable {
    fn default() -> RemapTable {
        RemapTable {
            root: RecordPtr::EMPTY,
            numbering: None,
            segment_units: 0,
            moved: Vec::new(),
            leaving: None,
        }
    }
}

impl RemapTable {
    pub(super) fn is_moved(&self, group: u32) -> bool {
        self.moved.get(group as usize).copied().unwrap_or(false)
    }

    /// The page for an extent, and the unit in the page where the extent begins.
    pub(super) fn slot(&self, extent: &StoredExtent) -> Option<(u64, u32)> {
        let number = self.numbering.as_ref()?.number(extent.segment)?;
        let units = page::units_of_page(self.segment_units).max(1);
        let pages = u64::from(self.segment_units / units);
        let slot = number * pages + u64::from(extent.start / units);
        Some((slot, extent.start % units))
    }

    /// The extent of `units` units that begins at a unit of a page.
    pub(super) fn extent(&self, slot: u64, from: u32, units: u32) -> Option<StoredExtent> {
        let in_page = page::units_of_page(self.segment_units).max(1);
        let pages = u64::from(self.segment_units / in_page);
        let numbering = self.numbering.as_ref()?;
        let number = slot / pages;
        (number < numbering.total()).then(|| StoredExtent {
            segment: numbering.segment(number),
            start: (slot % pages) as u32 * in_page + from,
            units,
        })
    }

    /// The pages of a group.
    pub(super) fn slots(&self, group: u32) -> Vec<Range<u64>> {
        let units = page::units_of_page(self.segment_units).max(1);
        let pages = u64::from(self.segment_units / units);
        let numbering = self.numbering.as_ref();
        let ranges = numbering.map_or(Vec::new(), |numbering| numbering.ranges(group));
        let ranges = ranges.into_iter();
        ranges.map(|r| r.start * pages..r.end * pages).collect()
    }
}

impl Remap {
    /// Called when a commit is durable, and when the pool is opened: sets the root of the table, and the purpose of
    /// each group. `open` makes the reader of the table.
    pub(crate) fn on_durable(
        &self,
        store: &Store,
        root: &RecordPtr,
        config: &Config,
        open: impl FnOnce() -> Box<dyn TableReader>,
    ) {
        let purposes = config.purposes().take(config.roles.len());
        let moved: Vec<bool> = purposes.map(|purpose| purpose == Purpose::Moved).collect();
        let leaving = config.leaving().map(u32::from);
        let is_used = leaving.is_some() || moved.contains(&true) || !root.is_empty();
        let before = self.now();
        if !is_used && !self.is_used.load(Ordering::Acquire) {
            return;
        }
        self.plain.get_or_init(open).grow();
        let changed = before.moved != moved || before.leaving != leaving;
        let numbering = Numbering::of(store, &config.stretches);
        *self.table.write() = Arc::new(RemapTable {
            root: *root,
            numbering: Some(numbering),
            segment_units: store.segment_size() / UNIT,
            moved,
            leaving,
        });
        // After the table: a thread that sees the mark has to find the table.
        self.is_used.store(is_used, Ordering::Release);
        if changed {
            // The counts are of another group, or of none.
            *self.covered.lock() = None;
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn now(&self) -> Arc<RemapTable> {
        Arc::clone(&self.table.read())
    }

    /// A number that changes when a place that was looked up earlier may be wrong.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The present place of an extent: from the table if its group was removed, otherwise the extent itself.
    pub(crate) fn resolve(&self, extent: StoredExtent) -> Result<Vec<StoredExtent>> {
        if !self.is_used.load(Ordering::Acquire) {
            return Ok(vec![extent]);
        }
        let table = self.now();
        let mut found = Vec::new();
        self.resolve_into(&table, extent, table.moved.len(), &mut found)?;
        Ok(found)
    }

    /// A new place may be in a group that was removed later. So the look-up repeats, at most once for each removed
    /// group.
    pub(super) fn resolve_into(
        &self,
        table: &RemapTable,
        extent: StoredExtent,
        depth: usize,
        found: &mut Vec<StoredExtent>,
    ) -> Result<()> {
        if !table.is_moved(extent.segment.group()) {
            found.push(extent);
            return Ok(());
        }
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| inconsistent("an entry leads to itself"))?;
        let pieces = self.entry(table, &extent)?;
        let pieces = pieces.ok_or_else(|| inconsistent("it lacks a place of a removed group"))?;
        for piece in pieces {
            self.resolve_into(table, piece, depth, found)?;
        }
        Ok(())
    }

    /// The copy of an extent in the group that is leaving, if it has a copy already.
    pub(crate) fn copy_of(&self, extent: &StoredExtent) -> Result<Option<Vec<StoredExtent>>> {
        if !self.is_used.load(Ordering::Acquire) {
            return Ok(None);
        }
        let table = self.now();
        match table.leaving == Some(extent.segment.group()) {
            true => self.entry(&table, extent),
            false => Ok(None),
        }
    }

    /// All units that an extent takes: its present place and its copy.
    pub(crate) fn all_places(&self, extent: StoredExtent) -> Result<Vec<StoredExtent>> {
        let mut places = self.resolve(extent)?;
        for n in 0..places.len() {
            places.extend(self.copy_of(&places[n])?.unwrap_or_default());
        }
        Ok(places)
    }

    /// The entry of an extent in the table.
    pub(super) fn entry(
        &self,
        table: &RemapTable,
        extent: &StoredExtent,
    ) -> Result<Option<Vec<StoredExtent>>> {
        let Some((slot, from)) = table.slot(extent) else {
            return Err(inconsistent("a place that does not exist is looked up"));
        };
        let page = self.page(&table.root, slot)?;
        let pieces = page.as_ref().and_then(|page| page.get(from));
        match pieces {
            Some(pieces) if page::units_of(pieces) != extent.units => {
                Err(inconsistent("an entry has another length than its place"))
            }
            pieces => Ok(pieces.cloned()),
        }
    }

    /// A page as of the last commit.
    pub(super) fn page(&self, root: &RecordPtr, slot: u64) -> Result<Option<Arc<RemapPage>>> {
        let disk = self.plain()?;
        let ptr = walk::get(disk, root, slot)?;
        if ptr.is_empty() {
            return Ok(None);
        }
        if let Some(page) = self.pages.get(&ptr.place.checksum) {
            return Ok(Some(page));
        }
        let bytes = disk.clear_record(&ptr)?;
        let page = RemapPage::decode(&bytes, &disk.bounds());
        let page = Arc::new(page.ok_or_else(|| inconsistent("a page cannot be read"))?);
        self.pages.insert(ptr.place.checksum, Arc::clone(&page));
        Ok(Some(page))
    }

    pub(super) fn plain(&self) -> Result<&dyn TableReader> {
        let plain = self.plain.get();
        plain
            .map(AsRef::as_ref)
            .ok_or_else(|| inconsistent("it is not open"))
    }

    /// Returns whether a read of the table found a bad copy since the last call.
    pub(crate) fn found_errors(&self) -> bool {
        let plain = self.plain.get();
        plain.is_some_and(|plain| plain.had_errors())
    }

    /// The store has more groups than before.
    pub(crate) fn grow(&self) {
        if let Some(plain) = self.plain.get() {
            plain.grow();
        }
    }
}

pub(super) fn inconsistent(detail: &str) -> Error {
    Error::inconsistent("remap table", detail)
}
