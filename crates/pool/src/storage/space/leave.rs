//! A group of devices leaves: nothing more is allocated in it, and at the end it is removed.

use std::collections::HashMap;

use store::{SegmentId, UNIT};

use super::Space;
use super::allocator::SpaceState;
use super::segments::picker::Summary;
use crate::error::Result;
use crate::format::records::extent::{Class, StoredExtent};
use crate::storage::space::counts::Total;
use crate::storage::space::segments::group_use::GroupUse;

impl Space {
    /// Stops allocation in a group that holds records, or allows it again.
    pub(crate) fn leave(&self, group: u16, leaves: bool) {
        let mut inner = self.inner.lock();
        inner.takes[usize::from(group)] = match leaves {
            true => GroupUse::NoMore,
            false => GroupUse::Records,
        };
        // A stripe would go on with the group although it takes no more records.
        inner.stripes.retain(|_, stripe| stripe.group != group);
    }

    /// The taken units of a group, parity included, outside of system segments.
    pub(crate) fn taken_units(&self, group: u16) -> u64 {
        let inner = self.inner.lock();
        let segments = inner.groups[usize::from(group)].iter();
        let records = segments.filter(|segment| segment.class != Some(Class::System));
        records.map(|segment| u64::from(segment.taken)).sum()
    }

    /// The largest number of bytes of records in `units` units of a group.
    pub(crate) fn bytes_of_units(&self, group: u16, units: u64) -> u64 {
        let shape = self.numbering().shape(group.into());
        let data = units * shape.needed() as u64 / shape.columns() as u64;
        data * u64::from(UNIT)
    }

    /// The bytes of the system segments that other groups must provide when a group leaves.
    pub(crate) fn system_bytes_without(&self, group: u16) -> u64 {
        let segment = u64::from(self.units_per_segment) * u64::from(UNIT);
        let wanted = self.system_segments_for(&self.numbering());
        self.inner.lock().system_lacking(wanted, group) as u64 * segment
    }

    /// Makes the commit that calls this write the table and all bitmaps into system segments of other groups. Makes
    /// enough system segments there first.
    pub(crate) fn move_system(&self, group: u16) -> Result<()> {
        let wanted = self.system_segments_for(&self.numbering());
        let mut inner = self.inner.lock();
        let lacking = inner.system_lacking(wanted, group);
        for id in inner.empty_segments(lacking)? {
            inner.make_system(id, self.units_per_segment);
        }
        inner.is_rewritten = true;
        Ok(())
    }

    /// Reads the bitmaps of all segments with records, and returns these segments. Notes all system segments for the
    /// table.
    pub(super) fn load_all(&self, inner: &mut SpaceState) -> Result<Vec<SegmentId>> {
        let numbering = self.numbering();
        let mut records = Vec::new();
        for number in 0..numbering.total() {
            let id = numbering.segment(number);
            match inner.class_of(id) {
                None => {}
                Some(Class::System) if inner.new_system.contains(&id) => {}
                Some(Class::System) => inner.new_system.push(id),
                Some(Class::Data | Class::Meta) => {
                    self.map(inner, id)?;
                    records.push(id);
                }
            }
        }
        Ok(records)
    }

    pub(crate) fn class_at(&self, segment: SegmentId) -> Class {
        self.inner.lock().class_of(segment).unwrap_or(Class::Data)
    }

    /// Returns whether all units of an extent are in use in the last commit.
    pub(crate) fn is_on_disk(&self, extent: &StoredExtent) -> Result<bool> {
        let span = self.numbering().span(extent);
        let mut inner = self.inner.lock();
        let map = self.map(&mut inner, span.segment)?;
        Ok(map.on_disk.is_taken(span.start, span.units))
    }

    /// Drops a group if all of its taken units have a copy. `copied` has the number of copied units of each segment. If
    /// more units are taken, does nothing and returns false. The commit that calls this removes the group from the
    /// table.
    pub(crate) fn drop_group(&self, group: u16, copied: &HashMap<SegmentId, u32>) -> bool {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let segments = &mut inner.groups[usize::from(group)];
        let id = |index: usize| SegmentId::new(group, index as u32);
        let is_copied = |(index, segment): (usize, &Summary)| {
            let copied = copied.get(&id(index)).copied().unwrap_or(0);
            segment.taken == copied && (copied == 0 || segment.class != Some(Class::System))
        };
        // A writer may have taken units since the last count. They have to be copied first.
        if !segments.iter().enumerate().all(is_copied) {
            return false;
        }
        for (index, segment) in segments.iter_mut().enumerate() {
            if segment.class.is_some() {
                inner.dropped.push(id(index));
            }
            *segment = Summary::empty(self.units_per_segment);
        }
        let of_group = |id: &SegmentId| id.group() == u32::from(group);
        inner.maps.retain(|id, _| !of_group(id));
        inner.cursors.retain(|(_, other), _| *other != group);
        inner.totals[usize::from(group)] =
            Total::new(segments.len() as u32, self.units_per_segment);
        inner.takes[usize::from(group)] = GroupUse::Nothing;
        true
    }
}

impl SpaceState {
    /// The number of system segments that are missing without those of a group.
    fn system_lacking(&self, wanted: u64, group: u16) -> usize {
        let own = u64::from(self.totals[usize::from(group)].system);
        let others = self.system_segments() - own;
        wanted.saturating_sub(others) as usize
    }
}
