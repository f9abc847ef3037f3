//! Allocates and frees units.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};
use store::{SegmentId, UNIT};
use zerocopy::FromBytes;

use super::Bitmap;
use super::segments::picker::{SegmentSearch, Summary, pick};
use super::segments::table::{ENTRIES_PER_PAGE, Numbering, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::records::extent::{Class, StoredExtent, UnitSpan};
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::config::{Config, Stretch};
use crate::storage::array::walk;
use crate::storage::reader::PoolReader;
use crate::storage::space::counts::Total;
use crate::storage::space::segments::group_use::GroupUse;

/// Allocation moves on to another group of devices after this many units.
const STRIPE_UNITS: u32 = (1 << 20) / UNIT;

/// After a commit, at most this many bitmaps of unchanged segments stay in memory.
const MAPS_KEPT: usize = 2048;

/// The allocator of a pool.
pub(crate) struct Space {
    pub(super) disk: Arc<PoolReader>,
    pub(super) units_per_segment: u32,
    pub(super) numbering: RwLock<Arc<Numbering>>,
    pub(super) reserved: AtomicU64,
    /// The approximate metadata of datasets, without metadata that only snapshots have.
    pub(super) metadata_bytes: AtomicU64,
    pub(super) inner: Mutex<SpaceState>,
    /// The runs that the last commit freed, in order. They are unknown until the first commit after an import.
    pub(super) freed_last: Mutex<Option<Vec<UnitSpan>>>,
}

pub(super) struct SpaceState {
    pub(super) groups: Vec<Vec<Summary>>,
    /// The records that may be placed in each group.
    pub(super) takes: Vec<GroupUse>,
    pub(super) maps: HashMap<SegmentId, Map>,
    pub(super) cursors: HashMap<(Class, u16), Cursor>,
    pub(super) stripes: HashMap<Class, SegmentStripe>,
    pub(super) totals: Vec<Total>,
    /// Segments that became system segments, and are not in the table yet.
    pub(super) new_system: Vec<SegmentId>,
    /// True if the next commit rewrites all bitmaps and the whole table.
    pub(super) is_rewritten: bool,
    /// Segments of removed groups that are still in the table.
    pub(super) dropped: Vec<SegmentId>,
    /// New segments of a group that was added or has grown. Nothing is placed there until the commit is durable.
    pub(super) unopened: Vec<SegmentId>,
    /// The array of bitmaps of the last commit.
    pub(super) bitmaps: RecordPtr,
    /// The units of records that only the second state has, while one is kept.
    pub(super) kept: Option<u64>,
    /// The units that were freed since a state was pinned. `None` if none is.
    pub(super) pinned: Option<Vec<UnitSpan>>,
    /// The segments in which units were freed that an image of the pool perhaps has still. `None`: all.
    pub(super) stale_segments: Option<BTreeSet<SegmentId>>,
    /// The extents that the two running transaction groups have allocated. The index is the last bit of the group's
    /// number.
    allocated: [Vec<StoredExtent>; 2],
}

pub(super) struct Map {
    pub(super) taken: Bitmap,
    pub(super) on_disk: Bitmap,
    /// The units of the second state, while one is kept.
    pub(super) kept: Option<Bitmap>,
}

pub(super) struct Cursor {
    index: u32,
    unit: u32,
}

#[derive(Clone, Copy)]
pub(super) struct SegmentStripe {
    pub(super) group: u16,
    left: u32,
}

impl SpaceState {
    /// Makes an empty segment a system segment, for the table and the bitmaps.
    pub(super) fn make_system(&mut self, id: SegmentId, units: u32) {
        debug_assert!(self.class_of(id).is_none(), "the segment is empty");
        self.groups[id.group() as usize][id.index() as usize].class = Some(Class::System);
        // Records were written there when it was not empty.
        self.cursors
            .retain(|(_, group), cursor| SegmentId::new(*group, cursor.index) != id);
        let total = &mut self.totals[id.group() as usize];
        total.free -= u64::from(units);
        total.system += 1;
        self.new_system.push(id);
    }

    pub(super) fn class_of(&self, id: SegmentId) -> Option<Class> {
        self.groups[id.group() as usize][id.index() as usize].class
    }
}

impl Space {
    /// The space of a new pool: nothing is allocated, and the system segments are chosen.
    pub(crate) fn create(disk: Arc<PoolReader>) -> Space {
        let space = Space::empty(disk, &[]);
        let wanted = space.system_segments_for(&space.numbering());
        {
            let mut inner = space.inner.lock();
            let groups = inner.groups.len() as u64;
            for n in 0..wanted {
                // The last segments of the devices: the first ones fill up first.
                let group = (n % groups) as usize;
                let index = inner.groups[group].len() - 1 - (n / groups) as usize;
                inner.make_system(
                    SegmentId::new(group as u16, index as u32),
                    space.units_per_segment,
                );
            }
        }
        space
    }

    /// The space of a pool, from its segment table and bitmaps.
    pub(crate) fn open(
        disk: Arc<PoolReader>,
        config: &Config,
        table: &RecordPtr,
        bitmaps: &RecordPtr,
    ) -> Result<Space> {
        let space = Space::empty(disk, &config.stretches);
        let mut inner = space.inner.lock();
        for (takes, purpose) in inner.takes.iter_mut().zip(config.purposes()) {
            *takes = GroupUse::of(purpose);
        }
        inner.bitmaps = *bitmaps;
        space.read_table(&mut inner, table)?;
        let system = space.system_units((*table, *bitmaps))?;
        space.take_system(&mut inner, system)?;
        drop(inner);
        Ok(space)
    }

    fn empty(disk: Arc<PoolReader>, stretches: &[Stretch]) -> Space {
        let units = disk.store.segment_size() / UNIT;
        let numbering = Arc::new(Numbering::of(disk.store.as_ref(), stretches));
        let summary = Summary::empty(units);
        let totals = disk.store.groups().into_iter();
        let totals = totals.map(|segments| Total::new(segments, units)).collect();
        let groups: Vec<Vec<Summary>> = disk
            .store
            .groups()
            .iter()
            .map(|segments| vec![summary; *segments as usize])
            .collect();
        Space {
            disk,
            units_per_segment: units,
            numbering: RwLock::new(numbering),
            reserved: AtomicU64::new(0),
            metadata_bytes: AtomicU64::new(0),
            freed_last: Mutex::default(),
            inner: Mutex::new(SpaceState {
                takes: vec![GroupUse::Records; groups.len()],
                groups,
                maps: HashMap::new(),
                cursors: HashMap::new(),
                stripes: HashMap::new(),
                totals,
                new_system: Vec::new(),
                is_rewritten: false,
                dropped: Vec::new(),
                unopened: Vec::new(),
                bitmaps: RecordPtr::EMPTY,
                kept: None,
                pinned: None,
                stale_segments: None,
                allocated: [Vec::new(), Vec::new()],
            }),
        }
    }

    pub(crate) fn numbering(&self) -> Arc<Numbering> {
        Arc::clone(&self.numbering.read())
    }

    /// The most units that one unit takes in any group.
    pub(crate) fn largest_cell(&self) -> u32 {
        self.numbering().largest_cell()
    }

    fn read_table(&self, inner: &mut SpaceState, table: &RecordPtr) -> Result<()> {
        let numbering = self.numbering();
        self.each_entry(table, &mut |number, entry| {
            self.take_entry(inner, numbering.segment(number), entry)
        })
    }

    /// Calls `take` with the entry of each segment in use. `take` returns `None` if the numbers are impossible.
    pub(super) fn each_entry(
        &self,
        table: &RecordPtr,
        take: &mut dyn FnMut(u64, &SegmentEntry) -> Option<()>,
    ) -> Result<()> {
        let bad = |detail: String| Error::inconsistent("segment table", detail);
        walk::each_record(&self.disk, table, &mut |page, ptr| {
            let bytes = self.disk.clear_record(ptr)?;
            if bytes.len() != UNIT as usize || page > self.numbering().total() {
                return Err(bad(format!("page {page} cannot be")));
            }
            for (n, chunk) in bytes.chunks_exact(size_of::<SegmentEntry>()).enumerate() {
                let number = page * ENTRIES_PER_PAGE as u64 + n as u64;
                let entry = SegmentEntry::read_from_bytes(chunk)
                    .map_err(|_| bad("an entry is cut short".into()))?;
                if entry == SegmentEntry::default() {
                    continue;
                }
                if number >= self.numbering().total() {
                    return Err(bad(format!(
                        "it has a segment {number} that is on no device"
                    )));
                }
                take(number, &entry)
                    .ok_or_else(|| bad(format!("segment {number} has impossible numbers")))?;
            }
            Ok(())
        })
    }

    fn take_entry(
        &self,
        inner: &mut SpaceState,
        id: SegmentId,
        entry: &SegmentEntry,
    ) -> Option<()> {
        let class = entry.class()?;
        let used = entry.used.get();
        let free = self.units_per_segment.checked_sub(used)?;
        let summary = &mut inner.groups[id.group() as usize][id.index() as usize];
        *summary = Summary {
            class: Some(class),
            taken: used,
            longest: free,
        };
        let total = &mut inner.totals[id.group() as usize];
        total.free -= u64::from(match class {
            Class::System => self.units_per_segment,
            Class::Data | Class::Meta => used,
        });
        total.system += u32::from(class == Class::System);
        Some(())
    }

    /// The bitmaps of a segment, read if they are not in memory.
    pub(super) fn map<'a>(&self, inner: &'a mut SpaceState, id: SegmentId) -> Result<&'a mut Map> {
        let number = self
            .numbering()
            .number(id)
            .ok_or_else(|| Error::inconsistent("record pointer", "it points outside the pool"))?;
        if !inner.maps.contains_key(&id) {
            let on_disk = self.read_bitmap(&inner.bitmaps, number)?;
            let summary = &inner.groups[id.group() as usize][id.index() as usize];
            // A system segment has no bitmap.
            let expected = match summary.class {
                Some(Class::System) | None => 0,
                Some(Class::Data | Class::Meta) => summary.taken,
            };
            if on_disk.count() != expected {
                return Err(Error::inconsistent(
                    "bitmap",
                    format!("of segment {number}: it does not agree with the segment table"),
                ));
            }
            let map = Map {
                taken: on_disk.clone(),
                // It has not changed since the second state, or it would be in memory.
                kept: inner.kept.is_some().then(|| on_disk.clone()),
                on_disk,
            };
            inner.maps.insert(id, map);
        }
        Ok(inner.maps.get_mut(&id).expect("just inserted"))
    }

    /// The bitmap of a segment in the array of bitmaps at `root`.
    pub(super) fn read_bitmap(&self, root: &RecordPtr, number: u64) -> Result<Bitmap> {
        let ptr = walk::get(&self.disk, root, number)?;
        if ptr.is_empty() {
            return Ok(Bitmap::new(self.units_per_segment));
        }
        Bitmap::from_bytes(&self.disk.clear_record(&ptr)?, self.units_per_segment)
            .ok_or_else(|| Error::inconsistent("bitmap", format!("of segment {number}")))
    }

    /// Takes a run of units, if possible not in the segment `apart_from`.
    pub(crate) fn allocate(
        &self,
        class: Class,
        units: u32,
        apart_from: Option<SegmentId>,
    ) -> Result<StoredExtent> {
        let mut inner = self.inner.lock();
        for group in self.group_order(&mut inner, class, units, apart_from) {
            let barred = apart_from
                .filter(|id| id.group() == u32::from(group))
                .map(SegmentId::index);
            if let Some(extent) = self.allocate_in(&mut inner, class, group, units, barred)? {
                return Ok(extent);
            }
        }
        drop(inner);
        match apart_from {
            // Two copies in one segment are better than none.
            Some(_) => self.allocate(class, units, None),
            // Space is for programs first, and for an image that is being made last.
            None if self.yield_pin() => self.allocate(class, units, None),
            None => Err(Error::NoSpace),
        }
    }

    /// The groups to try, the best first: the next one in turn, then those with most free space.
    fn group_order(
        &self,
        inner: &mut SpaceState,
        class: Class,
        units: u32,
        apart_from: Option<SegmentId>,
    ) -> Vec<u16> {
        let groups: Vec<u16> = inner.groups_that_take(GroupUse::Records).collect();
        debug_assert!(!groups.is_empty(), "a pool has a group for records");
        if groups.len() == 1 {
            return groups;
        }
        let avoid = apart_from.map(SegmentId::group);
        if let Some(stripe) = inner.stripes.get_mut(&class)
            && stripe.left >= units
            && avoid != Some(u32::from(stripe.group))
        {
            stripe.left -= units;
            let turn = stripe.group;
            return std::iter::once(turn)
                .chain(groups.into_iter().filter(move |g| *g != turn))
                .collect();
        }
        let mut order: Vec<(bool, u64, u16)> = groups
            .into_iter()
            .map(|group| {
                (
                    avoid == Some(u32::from(group)),
                    self.fullness(inner, group),
                    group,
                )
            })
            .collect();
        order.sort_unstable();
        if avoid.is_none() {
            let stripe = SegmentStripe {
                group: order[0].2,
                left: STRIPE_UNITS.saturating_sub(units),
            };
            inner.stripes.insert(class, stripe);
        }
        order.into_iter().map(|(_, _, group)| group).collect()
    }

    /// The used part of a group, in millionths.
    pub(super) fn fullness(&self, inner: &SpaceState, group: u16) -> u64 {
        let segments = &inner.groups[usize::from(group)];
        let taken: u64 = segments.iter().map(|s| u64::from(s.taken)).sum();
        taken * 1_000_000 / (segments.len() as u64 * u64::from(self.units_per_segment)).max(1)
    }

    pub(super) fn allocate_in(
        &self,
        inner: &mut SpaceState,
        class: Class,
        group: u16,
        units: u32,
        barred: Option<u32>,
    ) -> Result<Option<StoredExtent>> {
        let key = (class, group);
        let taken = self.numbering().shape(group.into()).taken(units);
        let mut fresh = false;
        loop {
            let Some(cursor) = inner.cursors.get(&key).filter(|c| Some(c.index) != barred) else {
                let segments = &inner.groups[usize::from(group)];
                let wanted = SegmentSearch {
                    class,
                    units: taken,
                    capacity: self.units_per_segment,
                    barred,
                    is_log: self.disk.store.is_log(group.into()),
                };
                let picked = pick(segments, &wanted);
                let Some(index) = picked else { return Ok(None) };
                inner.cursors.insert(key, Cursor { index, unit: 0 });
                fresh = true;
                continue;
            };
            let (index, unit) = (cursor.index, cursor.unit);
            let id = SegmentId::new(group, index);
            let found = self.map(inner, id)?.taken.find(unit, taken);
            let summary = &mut inner.groups[usize::from(group)][index as usize];
            match found {
                Ok(start) => {
                    let (segment, unit) = (id, start + taken);
                    let span = UnitSpan {
                        segment,
                        start,
                        units: taken,
                    };
                    self.take(inner, class, span);
                    inner.cursors.insert(key, Cursor { index, unit });
                    return Ok(Some(StoredExtent {
                        segment,
                        start,
                        units,
                    }));
                }
                Err(longest) => {
                    if fresh {
                        // The search began at the first unit, so this is the longest run.
                        summary.longest = longest;
                    }
                    // No run after the cursor is long enough. The next segment is chosen, or this one from its start.
                    inner.cursors.remove(&key);
                }
            }
        }
    }

    pub(super) fn take(&self, inner: &mut SpaceState, class: Class, span: UnitSpan) {
        let (id, units) = (span.segment, span.units);
        let map = inner.maps.get_mut(&id).expect("searched just now");
        assert!(map.taken.set(span.start, units), "the run is free");
        let summary = &mut inner.groups[id.group() as usize][id.index() as usize];
        // `longest` stays: no run is longer than before.
        summary.taken += units;
        let class = *summary.class.get_or_insert(class);
        if class != Class::System {
            inner.totals[id.group() as usize].free -= u64::from(units);
        }
    }

    /// Makes units free again, after an abandoned allocation or a durable commit.
    pub(crate) fn release(&self, extents: impl IntoIterator<Item = StoredExtent>) {
        let numbering = self.numbering();
        let extents = extents.into_iter();
        self.release_spans(extents.map(|extent| numbering.span(&extent)));
    }

    pub(super) fn release_spans(&self, spans: impl IntoIterator<Item = UnitSpan>) {
        let mut inner = self.inner.lock();
        for span in spans {
            let id = span.segment;
            let map = inner
                .maps
                .get_mut(&id)
                .expect("a segment in use keeps its map");
            assert!(
                map.taken.is_taken(span.start, span.units),
                "the run is taken"
            );
            let units = match &map.kept {
                Some(kept) => map.taken.clear_besides(span.start, span.units, kept),
                None => map.taken.clear_all(span.start, span.units),
            };
            let summary = &mut inner.groups[id.group() as usize][id.index() as usize];
            summary.taken -= units;
            // The length is unknown now. It is only a bound, and the next search sets it.
            summary.longest = self.units_per_segment;
            let class = summary.class;
            if summary.taken == 0 && class != Some(Class::System) {
                // An empty segment may get records of another class.
                summary.class = None;
            }
            if class != Some(Class::System) {
                inner.totals[id.group() as usize].free += u64::from(units);
            }
        }
    }

    /// Notes the allocations of a transaction group.
    pub(crate) fn count_allocated(&self, txg: u64, extents: Vec<StoredExtent>) {
        self.inner.lock().allocated[(txg % 2) as usize].extend(extents);
    }

    /// Applies the allocations of a transaction group, `more` allocations of its commit, and its frees to the bitmaps.
    /// Returns the segments that changed.
    pub(crate) fn apply(
        &self,
        txg: u64,
        more: &[StoredExtent],
        freed: &[StoredExtent],
    ) -> Result<Vec<ChangedSegment>> {
        let mut inner = self.inner.lock();
        let allocated = std::mem::take(&mut inner.allocated[(txg % 2) as usize]);
        let mut changed = std::collections::BTreeSet::new();
        let numbering = self.numbering();
        // Allocations first: the group may have freed what it allocated itself.
        for (extents, allocate) in [(&allocated[..], true), (more, true), (freed, false)] {
            for extent in extents {
                let span = numbering.span(extent);
                let map = self.map(&mut inner, extent.segment)?;
                let done = if allocate {
                    map.on_disk.set(span.start, span.units)
                } else {
                    map.on_disk.clear(span.start, span.units)
                };
                let kept = map.kept.as_ref().filter(|_| done && !allocate);
                let kept = kept.map_or(0, |kept| kept.count_run(span.start, span.units));
                inner.count_kept(kept);
                if !done {
                    let verb = if allocate { "allocated" } else { "freed" };
                    return Err(Error::inconsistent(
                        "space",
                        format!("{extent:?} was {verb} twice"),
                    ));
                }
                changed.insert(extent.segment);
            }
        }
        if std::mem::take(&mut inner.is_rewritten) {
            changed.extend(self.load_all(&mut inner)?);
        }
        let dropped = std::mem::take(&mut inner.dropped);
        let dropped = dropped.into_iter().map(|id| ChangedSegment {
            number: self.numbering().number(id).expect("it was in use"),
            entry: SegmentEntry::default(),
            bitmap: None,
        });
        let dropped: Vec<ChangedSegment> = dropped.collect();
        let system = std::mem::take(&mut inner.new_system);
        let system = system.into_iter().map(|id| ChangedSegment {
            number: self.numbering().number(id).expect("it exists"),
            entry: SegmentEntry::new(Class::System as u8, 0),
            bitmap: None,
        });
        let changed = changed.into_iter().map(|id| self.changed(&inner, id));
        Ok(changed.chain(system).chain(dropped).collect())
    }

    fn changed(&self, inner: &SpaceState, id: SegmentId) -> ChangedSegment {
        let map = &inner.maps[&id];
        let used = map.on_disk.count();
        let class = inner.class_of(id);
        ChangedSegment {
            number: self.numbering().number(id).expect("it has a map"),
            entry: match class {
                Some(class) if used > 0 => SegmentEntry::new(class as u8, used),
                _ => SegmentEntry::default(),
            },
            bitmap: (used > 0).then(|| map.on_disk.to_bytes()),
        }
    }

    /// Called when a commit is durable: its bitmaps are now those on disk, and the extents that it freed are free.
    pub(crate) fn committed(&self, bitmaps: RecordPtr, freed: &[StoredExtent]) {
        let numbering = self.numbering();
        self.release_durably(freed.iter().map(|extent| numbering.span(extent)).collect());
        let mut inner = self.inner.lock();
        inner.bitmaps = bitmaps;
        if inner.maps.len() > MAPS_KEPT {
            let SpaceState {
                maps,
                cursors,
                groups,
                ..
            } = &mut *inner;
            // A bitmap that is the same in memory and on disk can be read again.
            maps.retain(|id, map| {
                let class = groups[id.group() as usize][id.index() as usize].class;
                let in_use = cursors
                    .iter()
                    .any(|((_, group), c)| SegmentId::new(*group, c.index) == *id);
                let is_changed = map.kept.as_ref().is_some_and(|kept| *kept != map.on_disk);
                in_use || class == Some(Class::System) || is_changed || map.taken != map.on_disk
            });
        }
    }

    /// The bitmap on disk of every segment except system segments, for the check of a pool.
    pub(crate) fn bitmaps_on_disk(&self) -> Result<Vec<(SegmentId, Bitmap)>> {
        let mut inner = self.inner.lock();
        let mut all = Vec::new();
        let numbering = self.numbering();
        for number in 0..numbering.total() {
            let id = numbering.segment(number);
            let class = inner.class_of(id);
            if class != Some(Class::System) {
                all.push((id, self.map(&mut inner, id)?.on_disk.clone()));
            }
        }
        Ok(all)
    }
}

/// A segment whose state on disk changes with a commit.
pub(crate) struct ChangedSegment {
    pub(crate) number: u64,
    /// The entry of the segment in the table.
    pub(crate) entry: SegmentEntry,
    /// The bitmap of the segment; `None` if the segment is empty.
    pub(crate) bitmap: Option<Vec<u8>>,
}
