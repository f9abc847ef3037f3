//! The segment table: what each segment is used for and how full it is, so that the allocator can
//! choose without reading every bitmap.

use store::{Shape, Store};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Extent, Span};

/// Entries to a record of the table.
pub(crate) const ENTRIES_PER_PAGE: usize = store::UNIT as usize / size_of::<SegmentEntry>();

/// One segment.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct SegmentEntry {
    /// A [`super::Class`], or 0 if nothing is in it.
    pub(crate) class: u8,
    reserved: [u8; 3],
    /// Units that are set in its bitmap; 0 for a system segment, which has none.
    pub(crate) used: U32,
    reserved2: [u8; 24],
}

const _: () = assert!(size_of::<SegmentEntry>() == 32);

impl SegmentEntry {
    pub(crate) fn new(class: u8, used: u32) -> SegmentEntry {
        SegmentEntry {
            class,
            used: used.into(),
            ..SegmentEntry::default()
        }
    }
}

/// How the segments of all groups are numbered: group by group, in order. And how each group lays out
/// what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    bases: Vec<u64>,
    counts: Vec<u32>,
    shapes: Vec<Shape>,
}

impl Numbering {
    pub(crate) fn of(store: &dyn Store) -> Numbering {
        let counts = store.groups();
        let groups = 0..counts.len() as u32;
        let shapes = groups.map(|group| store.shape(group)).collect();
        Numbering::new(counts, shapes)
    }

    fn new(counts: Vec<u32>, shapes: Vec<Shape>) -> Numbering {
        let bases = counts
            .iter()
            .scan(0, |base, count| {
                let this = *base;
                *base += u64::from(*count);
                Some(this)
            })
            .collect();
        Numbering {
            bases,
            counts,
            shapes,
        }
    }

    /// The shape of a group; of one that does not exist any.
    pub(crate) fn shape(&self, group: u32) -> Shape {
        let shape = self.shapes.get(group as usize);
        shape.copied().unwrap_or(Shape::WHOLE)
    }

    /// The most units that one unit takes in any group.
    pub(crate) fn largest_cell(&self) -> u32 {
        let cells = self.shapes.iter().map(|shape| shape.cell());
        cells.max().unwrap_or(1)
    }

    pub(crate) fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// What an extent takes of its segment.
    pub(crate) fn span(&self, extent: &Extent) -> Span {
        Span {
            segment: extent.segment,
            start: extent.start,
            units: self.shape(extent.segment.group()).taken(extent.units),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The number that the first segment of a group has, or would have.
    pub(crate) fn first(&self, group: u32) -> u64 {
        let base = self.bases.get(group as usize);
        base.copied().unwrap_or_else(|| self.total())
    }

    /// The number of a segment, if it exists.
    pub(crate) fn number(&self, segment: store::SegmentId) -> Option<u64> {
        let group = segment.group() as usize;
        let count = *self.counts.get(group)?;
        (segment.index() < count).then(|| self.bases[group] + u64::from(segment.index()))
    }

    /// The segment with a number, which exists.
    pub(crate) fn segment(&self, number: u64) -> store::SegmentId {
        let group = self.bases.partition_point(|base| *base <= number) - 1;
        store::SegmentId::new(group as u16, (number - self.bases[group]) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::SegmentId;

    #[test]
    fn numbers_and_segments_correspond() {
        let numbering = Numbering::new(vec![3, 5, 1], vec![Shape::WHOLE; 3]);
        assert_eq!(numbering.total(), 9);
        for number in 0..9 {
            assert_eq!(numbering.number(numbering.segment(number)), Some(number));
        }
        assert_eq!(numbering.segment(3), SegmentId::new(1, 0));
        assert_eq!(numbering.number(SegmentId::new(0, 3)), None);
        assert_eq!(numbering.number(SegmentId::new(3, 0)), None);
        assert_eq!(numbering.number(SegmentId(u64::MAX)), None);
    }
}
