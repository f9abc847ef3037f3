//! System segments: they hold the segment table and the bitmaps, and have no bitmap themselves.

use std::collections::HashMap;

use store::SegmentId;

use super::allocator::SpaceState;
use super::segments::table::{ENTRIES_PER_PAGE, Numbering};
use super::{Bitmap, Space};
use crate::error::{Error, Result};
use crate::format::records::extent::{Class, StoredExtent};
use crate::format::records::pointer::RecordPtr;
use crate::storage::array::walk::{self, Visit};

/// The segment table and the bitmaps of a state.
pub(crate) type SpaceRoots = (RecordPtr, RecordPtr);

impl Space {
    /// The number of system segments for all bitmaps, the table and their nodes: two copies each, old and new.
    pub(super) fn system_segments_for(&self, numbering: &Numbering) -> u64 {
        let units = self.system_units_for(numbering);
        units.div_ceil(u64::from(self.units_per_segment)).max(2)
    }

    pub(super) fn system_units_for(&self, numbering: &Numbering) -> u64 {
        let segments = numbering.total();
        let records = segments + segments.div_ceil(ENTRIES_PER_PAGE as u64);
        let nodes = 2 * records.div_ceil(8) + 24;
        (records + nodes) * 2 * 2 * u64::from(numbering.largest_cell())
    }

    /// The units of a state's table and bitmaps, by segment.
    pub(super) fn system_units(
        &self,
        (table, bitmaps): SpaceRoots,
    ) -> Result<HashMap<SegmentId, Bitmap>> {
        let bad = |detail| Error::inconsistent("segment table", detail);
        let numbering = self.numbering();
        let mut all: HashMap<SegmentId, Bitmap> = HashMap::new();
        for root in [table, bitmaps] {
            walk::visit_all(&self.disk, &root, &mut |visit| {
                let (Visit::Node(_, ptr, _) | Visit::Record(_, ptr)) = visit;
                if ptr.place.is_gang() {
                    return Err(bad("a record of it lies in pieces"));
                }
                for extent in StoredExtent::of_whole(&ptr.place) {
                    let span = numbering.span(&extent);
                    let map = all.entry(span.segment);
                    let map = map.or_insert_with(|| Bitmap::new(self.units_per_segment));
                    if !map.set(span.start, span.units) {
                        return Err(bad("two of its records overlap"));
                    }
                }
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// Takes these units, for the current state or for the second state.
    pub(super) fn take_system(
        &self,
        inner: &mut SpaceState,
        units: HashMap<SegmentId, Bitmap>,
    ) -> Result<()> {
        for (id, units) in units {
            let map = self.map(inner, id)?;
            let more = units.count_without(&map.taken);
            map.taken.merge(&units);
            if let Some(kept) = &mut map.kept {
                *kept = units;
            }
            let summary = &mut inner.groups[id.group() as usize][id.index() as usize];
            if summary.class != Some(Class::System) {
                let detail = "a record of it is not in a system segment";
                return Err(Error::inconsistent("segment table", detail));
            }
            summary.taken += more;
        }
        Ok(())
    }
}
