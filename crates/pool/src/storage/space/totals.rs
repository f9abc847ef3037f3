//! The size of the pool, and its free space.
//!
//! In a group with parity a record takes more than its units, the more so the smaller it is. So free
//! space is counted in two ways: what records of the usual size can take of it, which is told to
//! people; and what even single units can take, which is what is promised.

use super::Space;
use super::allocator::Inner;
use crate::format::extent::Class;
use crate::storage::space::counts::{Capacity, Total};
use crate::storage::space::takes::Takes;

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
    pub(crate) fn total(&self) -> Capacity {
        let units = u64::from(self.units_per_segment);
        self.sum(|total| total.segments_for_records() * units)
    }

    /// What is not taken.
    pub(crate) fn free(&self) -> Capacity {
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

    fn sum(&self, units: impl Fn(&Total) -> u64) -> Capacity {
        let numbering = self.numbering();
        let inner = self.inner.lock();
        let mut sum = Capacity::default();
        for group in inner.groups_that_take(Takes::Records).map(usize::from) {
            let (total, shape) = (&inner.totals[group], &numbering.shapes()[group]);
            // What is left at the end of a segment is too little for anything.
            let rest = u64::from(self.units_per_segment % shape.cell());
            sum.add(*shape, units(total), rest * total.segments_for_records());
        }
        sum
    }
}
