//! How much room there is, and how much of it is free.
//!
//! In a group with parity a record takes more than its units, the more so the smaller it is. So free
//! space is counted in two ways: what records of the usual size can take of it, which is told to
//! people; and what even single units can take, which is what is promised.

use store::{Shape, UNIT};

use super::allocator::Inner;
use super::logs::Takes;
use super::{Class, Space};

/// The units of one group, parity included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Total {
    pub(super) segments: u32,
    /// How many of these are the system's.
    pub(super) system: u32,
    /// Units that are not taken, outside of the system's segments.
    pub(super) free: u64,
}

impl Total {
    /// The totals of an empty group.
    pub(super) fn new(segments: u32, units_per_segment: u32) -> Total {
        Total {
            segments,
            system: 0,
            free: u64::from(segments) * u64::from(units_per_segment),
        }
    }

    fn segments_for_records(&self) -> u64 {
        u64::from(self.segments - self.system)
    }
}

impl Total {
    /// There are more segments. Their units are not free yet.
    pub(super) fn extend(&mut self, segments: u32) {
        self.segments += segments;
    }
}

/// Bytes of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Records of the usual size.
    pub(crate) usual: u64,
    /// Records of one unit each.
    pub(crate) certain: u64,
}

impl Room {
    fn add(&mut self, shape: Shape, units: u64, unusable: u64) {
        self.usual += shape.usable(units) * u64::from(UNIT);
        let cells = units.saturating_sub(unusable) / u64::from(shape.cell());
        self.certain += cells * u64::from(UNIT);
    }
}

impl Inner {
    /// How many segments are the system's.
    pub(super) fn system_segments(&self) -> u64 {
        self.totals
            .iter()
            .map(|total| u64::from(total.system))
            .sum()
    }
}

impl Space {
    /// All there is for records.
    pub(crate) fn total(&self) -> Room {
        let units = u64::from(self.units_per_segment);
        self.sum(|total| total.segments_for_records() * units)
    }

    /// What is not taken.
    pub(crate) fn free(&self) -> Room {
        self.sum(|total| total.free)
    }

    /// How much of so many bytes is metadata, if it is as much as of all that is taken.
    pub(super) fn metadata_of(&self, bytes: u64) -> u64 {
        let inner = self.inner.lock();
        let (mut all, mut metadata) = (0, 0);
        for group in inner.groups_that_take(Takes::Records).map(usize::from) {
            for segment in &inner.groups[group] {
                let taken = u64::from(segment.taken);
                match segment.class {
                    Some(Class::Meta) => (all, metadata) = (all + taken, metadata + taken),
                    Some(Class::Data) => all += taken,
                    Some(Class::System) | None => {}
                }
            }
        }
        let part = u128::from(bytes) * u128::from(metadata) / u128::from(all.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    fn sum(&self, units: impl Fn(&Total) -> u64) -> Room {
        let numbering = self.numbering();
        let inner = self.inner.lock();
        let mut room = Room::default();
        for group in inner.groups_that_take(Takes::Records).map(usize::from) {
            let (total, shape) = (&inner.totals[group], &numbering.shapes()[group]);
            // What is left at the end of a segment is too little for anything.
            let rest = u64::from(self.units_per_segment % shape.cell());
            room.add(*shape, units(total), rest * total.segments_for_records());
        }
        room
    }
}
