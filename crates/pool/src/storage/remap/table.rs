//! The remap table as the last commit left it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use store::{SegmentId, Store, UNIT};

use super::page::{self, Page};
use crate::error::{Error, Result};
use crate::format::config::{Config, Purpose};
use crate::format::extent::Extent;
use crate::format::pointer::RecordPtr;
use crate::storage::array::walk;
use crate::storage::gang::Bounds;
use crate::storage::nodes::Nodes;
use crate::storage::space::Numbering;

/// Pages of the table kept in memory.
const CACHED_PAGES: usize = 4096;

/// Reads the table, which is never in a group that was removed.
pub(crate) trait TableReader: Nodes + Send + Sync {
    /// What exists.
    fn bounds(&self) -> Arc<Bounds>;

    /// The store has more groups than before.
    fn grow(&self);

    /// Whether a bad copy was found since this was asked last.
    fn had_errors(&self) -> bool;
}

/// The remap table of a pool.
pub(crate) struct Remap {
    /// As of the last commit.
    pub(super) table: RwLock<Arc<Table>>,
    /// Whether there is anything in it, or about to be.
    pub(super) is_used: AtomicBool,
    pub(super) plain: OnceLock<Box<dyn TableReader>>,
    /// By the checksums of their records.
    pub(super) pages: Cache<[u8; 16], Arc<Page>>,
    /// What the commit under way has changed.
    pub(super) pending: Mutex<BTreeMap<u64, Page>>,
    /// How many raw units of each segment of the group that is leaving have a copy, once that is counted.
    pub(super) covered: Mutex<Option<HashMap<SegmentId, u32>>>,
    /// Counts the times that places moved under those who had looked them up.
    pub(super) generation: AtomicU64,
}

/// What the table is as of a commit.
pub(super) struct Table {
    pub(super) root: RecordPtr,
    pub(super) numbering: Option<Numbering>,
    pub(super) segment_units: u32,
    /// Groups that were removed, whose places are looked up here.
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

impl Default for Table {
    fn default() -> Table {
        Table {
            root: RecordPtr::EMPTY,
            numbering: None,
            segment_units: 0,
            moved: Vec::new(),
            leaving: None,
        }
    }
}

impl Table {
    pub(super) fn is_moved(&self, group: u32) -> bool {
        self.moved.get(group as usize).copied().unwrap_or(false)
    }

    /// The page of what begins at a place, and the unit in it.
    pub(super) fn slot(&self, extent: &Extent) -> Option<(u64, u32)> {
        let number = self.numbering.as_ref()?.number(extent.segment)?;
        let units = page::units_of_page(self.segment_units).max(1);
        let pages = u64::from(self.segment_units / units);
        let slot = number * pages + u64::from(extent.start / units);
        Some((slot, extent.start % units))
    }

    /// What begins at a unit of a page, and has so many units.
    pub(super) fn extent(&self, slot: u64, from: u32, units: u32) -> Option<Extent> {
        let in_page = page::units_of_page(self.segment_units).max(1);
        let pages = u64::from(self.segment_units / in_page);
        let numbering = self.numbering.as_ref()?;
        let number = slot / pages;
        (number < numbering.total()).then(|| Extent {
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
    /// A commit is durable, or the pool is being opened: the table has this root, and groups are what
    /// the configuration says. `open` makes what reads the table.
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
        *self.table.write() = Arc::new(Table {
            root: *root,
            numbering: Some(numbering),
            segment_units: store.segment_size() / UNIT,
            moved,
            leaving,
        });
        self.is_used.store(is_used, Ordering::Release);
        if changed {
            *self.covered.lock() = None;
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn now(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// Changes when places that were looked up before may be other ones now.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Where the units of an extent lie: where they say, or if their group was removed where the table says.
    pub(crate) fn resolve(&self, extent: Extent) -> Result<Vec<Extent>> {
        if !self.is_used.load(Ordering::Acquire) {
            return Ok(vec![extent]);
        }
        let table = self.now();
        let mut found = Vec::new();
        self.resolve_into(&table, extent, table.moved.len(), &mut found)?;
        Ok(found)
    }

    /// A copy may be in a group that was removed later: so often at most as there are such groups.
    pub(super) fn resolve_into(
        &self,
        table: &Table,
        extent: Extent,
        depth: usize,
        found: &mut Vec<Extent>,
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

    /// Where the copy of an extent is that lies in the group which is leaving, if there is one yet.
    pub(crate) fn copy_of(&self, extent: &Extent) -> Result<Option<Vec<Extent>>> {
        if !self.is_used.load(Ordering::Acquire) {
            return Ok(None);
        }
        let table = self.now();
        match table.leaving == Some(extent.segment.group()) {
            true => self.entry(&table, extent),
            false => Ok(None),
        }
    }

    /// Where an extent and its copy are: all units that it takes.
    pub(crate) fn all_places(&self, extent: Extent) -> Result<Vec<Extent>> {
        let mut places = self.resolve(extent)?;
        for n in 0..places.len() {
            places.extend(self.copy_of(&places[n])?.unwrap_or_default());
        }
        Ok(places)
    }

    /// What the table says of an extent.
    pub(super) fn entry(&self, table: &Table, extent: &Extent) -> Result<Option<Vec<Extent>>> {
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

    /// A page as the last commit left it.
    pub(super) fn page(&self, root: &RecordPtr, slot: u64) -> Result<Option<Arc<Page>>> {
        let disk = self.plain()?;
        let ptr = walk::get(disk, root, slot)?;
        if ptr.is_empty() {
            return Ok(None);
        }
        if let Some(page) = self.pages.get(&ptr.place.checksum) {
            return Ok(Some(page));
        }
        let bytes = disk.clear_record(&ptr)?;
        let page = Page::decode(&bytes, &disk.bounds());
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

    /// Reads of the table that found a bad copy.
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
