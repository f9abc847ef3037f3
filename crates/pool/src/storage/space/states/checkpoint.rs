//! Keeps the space of a second state of the pool, besides the current state that commits change.
//!
//! The second state is a checkpoint, or, during a rewind, the state that is about to be abandoned. It has bitmaps of
//! its own. As long as it is kept, a unit is taken for the allocator if it is set in one of the two bitmaps. So a free
//! needs no list, and ending the second state means forgetting its bitmaps.
//!
//! The bitmap of a segment is the same in both states until the current state changes it. If the two differ, both stay
//! in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use store::UNIT;

use crate::error::{Error, Result};
use crate::format::records::extent::{Class, UnitSpan};
use crate::format::records::pointer::{RecordLocation, RecordPtr};
use crate::storage::array::walk;
use crate::storage::space::allocator::SpaceState;
use crate::storage::space::system::SpaceRoots;
use crate::storage::space::{Bitmap, ReserveFor, Space};

impl Space {
    /// Returns whether a second state is kept.
    pub(crate) fn has_kept(&self) -> bool {
        self.inner.lock().kept.is_some()
    }

    /// Bytes that only the second state has, parity included.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let inner = self.inner.lock();
        inner.kept.unwrap_or(0) * u64::from(UNIT)
    }

    /// Makes empty segments system segments, so that there is space for three sets of bitmaps: of the kept state, of
    /// the last commit, and of the next commit. The commit that calls this enters them into the segment table.
    pub(crate) fn grow_system(self: &Arc<Space>) -> Result<()> {
        let wanted = self.system_units_for(&self.numbering()).div_ceil(2) * 3;
        let wanted = wanted.div_ceil(u64::from(self.units_per_segment));
        let lacking = wanted.saturating_sub(self.inner.lock().system_segments());
        if lacking == 0 {
            return Ok(());
        }
        let bytes = lacking * u64::from(self.units_per_segment) * u64::from(UNIT);
        let _reserved = self.reserve(bytes, ReserveFor::Writing)?;
        let mut inner = self.inner.lock();
        for id in inner.empty_segments(lacking as usize)? {
            inner.make_system(id, self.units_per_segment);
        }
        Ok(())
    }

    /// Keeps the state of the last commit. Call it before [`Space::apply`] of the next commit.
    pub(crate) fn keep_this(&self, roots: SpaceRoots) -> Result<()> {
        let mut inner = self.inner.lock();
        let system = self.system_units(roots)?;
        inner.begin(self.units_per_segment);
        self.take_system(&mut inner, system)
    }

    /// Keeps the state with these roots, after an import.
    pub(crate) fn keep(&self, (table, bitmaps): SpaceRoots) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.begin(self.units_per_segment);
        let other = self.bitmaps_of(&bitmaps)?;
        let own = self.bitmaps_of(&inner.bitmaps)?;
        let all: BTreeSet<u64> = own.keys().chain(other.keys()).copied().collect();
        let entries = self.classes_of(&table)?;
        // Bitmaps at the same place are equal, and most are. These are not read.
        for number in all.into_iter().filter(|n| own.get(n) != other.get(n)) {
            self.keep_segment(&mut inner, number, &bitmaps, entries.get(&number))?;
        }
        let system = self.system_units((table, bitmaps))?;
        self.take_system(&mut inner, system)
    }

    fn keep_segment(
        &self,
        inner: &mut SpaceState,
        number: u64,
        bitmaps: &RecordPtr,
        entry: Option<&(Class, u32)>,
    ) -> Result<()> {
        let bad = |detail| Error::inconsistent("bitmap", format!("of segment {number}: {detail}"));
        if number >= self.numbering().total() {
            return Err(bad("it is on no device"));
        }
        let id = self.numbering().segment(number);
        let kept = self.read_bitmap(bitmaps, number)?;
        let (class, used) = entry.map_or((None, 0), |(class, used)| (Some(*class), *used));
        if kept.count() != used || class == Some(Class::System) {
            return Err(bad("it does not agree with the segment table of its state"));
        }
        let map = self.map(inner, id)?;
        let only = kept.count_without(&map.on_disk);
        // For the allocator a unit is taken if one of the two states has it.
        map.taken.merge(&kept);
        map.kept = Some(kept);
        let summary = &mut inner.groups[id.group() as usize][id.index() as usize];
        if summary.class == Some(Class::System) {
            return Err(bad("its segment is the system's"));
        }
        summary.class = summary.class.or(class);
        summary.taken += only;
        inner.totals[id.group() as usize].free -= u64::from(only);
        inner.count_kept(only);
        Ok(())
    }

    /// Stops keeping the second state. A durable commit has these roots.
    pub(crate) fn end_kept(&self, roots: SpaceRoots) {
        let mut inner = self.inner.lock();
        if inner.kept.take().is_none() {
            return;
        }
        let system = self.system_units(roots).inspect_err(|error| {
            tracing::warn!(%error, "space of the checkpoint's bitmaps is free after the next import");
        });
        let mut free = Vec::new();
        let SpaceState { maps, groups, .. } = &mut *inner;
        for (id, map) in maps.iter_mut() {
            let Some(kept) = map.kept.take() else {
                continue;
            };
            let class = groups[id.group() as usize][id.index() as usize].class;
            let only = match (class, &system) {
                (Some(Class::System), Ok(system)) => match system.get(id) {
                    Some(own) => kept.without(own),
                    None => kept,
                },
                (Some(Class::System), Err(_)) => continue,
                _ => kept.without(&map.on_disk),
            };
            let spans = only
                .taken_runs()
                .into_iter()
                .map(|(start, units)| UnitSpan {
                    segment: *id,
                    start,
                    units,
                });
            free.extend(spans);
        }
        // The release takes the lock.
        drop(inner);
        self.release_durably(free.clone());
        // As if that commit had freed them: the superblock before it still reaches them.
        self.note_ended(free);
    }

    /// The record of each bitmap.
    fn bitmaps_of(&self, root: &RecordPtr) -> Result<BTreeMap<u64, RecordLocation>> {
        let mut all = BTreeMap::new();
        walk::each_record(&self.disk, root, &mut |number, ptr| {
            all.insert(number, ptr.place);
            Ok(())
        })?;
        Ok(all)
    }

    /// The class of each segment that is in use, and its units.
    fn classes_of(&self, table: &RecordPtr) -> Result<HashMap<u64, (Class, u32)>> {
        let mut all = HashMap::new();
        self.each_entry(table, &mut |number, entry| {
            all.insert(number, (entry.class()?, entry.used.get()));
            Some(())
        })?;
        Ok(all)
    }
}

impl SpaceState {
    /// Begins to keep two states. At first their bitmaps are equal, and the second state has no units in system
    /// segments.
    fn begin(&mut self, units: u32) {
        debug_assert!(self.kept.is_none(), "one second state is kept at a time");
        self.kept = Some(0);
        for (id, map) in &mut self.maps {
            let class = self.groups[id.group() as usize][id.index() as usize].class;
            map.kept = Some(match class {
                Some(Class::System) => Bitmap::new(units),
                _ => map.on_disk.clone(),
            });
        }
    }

    pub(in crate::storage::space) fn count_kept(&mut self, units: u32) {
        if let Some(kept) = &mut self.kept {
            *kept += u64::from(units);
        }
    }
}
