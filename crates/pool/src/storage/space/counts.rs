//! The number of units of a group, and the space for records in bytes.

use store::{Shape, UNIT};

/// The units of one group, parity included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Total {
    pub(super) segments: u32,
    /// The number of system segments.
    pub(super) system: u32,
    /// Units that are not taken, outside of system segments.
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

    pub(super) fn segments_for_records(&self) -> u64 {
        u64::from(self.segments - self.system)
    }

    /// Adds segments. Their units are not free yet.
    pub(super) fn extend(&mut self, segments: u32) {
        self.segments += segments;
    }
}

/// Space for records, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// For records of the usual size (128 KiB).
    pub(crate) usual: u64,
    /// For records of one unit each: the worst case.
    pub(crate) certain: u64,
}

impl Capacity {
    pub(super) fn add(&mut self, shape: Shape, units: u64, unusable: u64) {
        self.usual += shape.usable(units) * u64::from(UNIT);
        let cells = units.saturating_sub(unusable) / u64::from(shape.cell());
        self.certain += cells * u64::from(UNIT);
    }
}
