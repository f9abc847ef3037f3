//! Segments, by their numbers.

/// Records are placed in multiples of this many bytes, so that no two share a physical sector.
pub const UNIT: u32 = 4096;

/// A segment: a group of devices, and an index in it. Ordered and stored as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

impl SegmentId {
    /// The segment `index` of `group`.
    pub const fn new(group: u16, index: u32) -> SegmentId {
        SegmentId((group as u64) << 32 | index as u64)
    }

    /// Returns the number of the group. Ids beyond the range of groups yield a group that does not exist.
    pub const fn group(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the index in the group.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }
}
