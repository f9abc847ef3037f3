//! The size of the pool, and its free space.
//!
//! In a group with parity a record takes more than its units; a small record takes relatively more than a large one. So
//! free space is counted in two ways ([`Capacity`]): for records of the usual size, which users see, and for single
//! units, which writers can reserve.

use super::Space;
use super::allocator::SpaceState;
use crate::format::records::extent::Class;
use crate::storage::space::counts::{Capacity, Total};
use crate::storage::space::segments::group_use::GroupUse;

impl SpaceState {
    pub(super) fn system_segments(&self) -> u64 {
        self.totals
            .iter()
            .map(|total| u64::from(total.system))
            .sum()
    }
}

impl Space {
    /// The space for records, used or free.
    pub(crate) fn total(&self) -> Capacity {
        let units = u64::from(self.units_per_segment);
        self.sum(|total| total.segments_for_records() * units)
    }

    /// The free space for records.
    pub(crate) fn free(&self) -> Capacity {
        self.sum(|total| total.free)
    }

    /// The part of `bytes` that is metadata, if the share of metadata is the same as in all taken units.
    pub(super) fn metadata_of(&self, bytes: u64) -> u64 {
        let inner = self.inner.lock();
        let (mut all, mut metadata) = (0, 0);
        for group in inner.groups_that_take(GroupUse::Records).map(usize::from) {
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

    fn sum(&self, units: impl Fn(&Total) -> u64) -> Capacity {
        let numbering = self.numbering();
        let inner = self.inner.lock();
        let mut sum = Capacity::default();
        for group in inner.groups_that_take(GroupUse::Records).map(usize::from) {
            let (total, shape) = (&inner.totals[group], &numbering.shapes()[group]);
            // The rest at the end of a segment is too short for a record.
            let rest = u64::from(self.units_per_segment % shape.cell());
            sum.add(*shape, units(total), rest * total.segments_for_records());
        }
        sum
    }
}
