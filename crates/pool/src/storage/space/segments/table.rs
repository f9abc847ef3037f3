//! The segment table: the class and the used units of each segment. With it the allocator chooses a segment without
//! reading all bitmaps.

use std::ops::Range;

use store::{Shape, Store};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::format::records::extent::{Class, StoredExtent, UnitSpan};
use crate::format::superblock::config::Stretch;

/// The number of entries in a record of the table.
pub(crate) const ENTRIES_PER_PAGE: usize = store::UNIT as usize / size_of::<SegmentEntry>();

/// The entry of a segment.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct SegmentEntry {
    /// A [`Class`], or 0 if the segment is empty.
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

    /// `None` if the segment is empty, or if the number is no class.
    pub(crate) fn class(&self) -> Option<Class> {
        match self.class {
            1 => Some(Class::Data),
            2 => Some(Class::Meta),
            3 => Some(Class::System),
            _ => None,
        }
    }
}

/// The numbers of the segments of all groups, and the shape of each group. Segments are numbered stretch by stretch. At
/// first each group is one stretch. When a group grows, its new stretch comes last, so that no segment ever gets
/// another number.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    stretches: Vec<NumberedStretch>,
    /// The stretches of each group, in order.
    groups: Vec<Vec<usize>>,
    shapes: Vec<Shape>,
    total: u64,
}

/// A stretch, with the number and the index of its first segment.
#[derive(Clone, Copy, Debug)]
struct NumberedStretch {
    base: u64,
    first: u32,
    stretch: Stretch,
}

impl Numbering {
    /// The numbers of the segments of a store: by the listed stretches, or group by group if none are listed.
    pub(crate) fn of(store: &Store, listed: &[Stretch]) -> Numbering {
        let counts = store.groups();
        let groups = 0..counts.len() as u32;
        let shapes = groups.map(|group| store.shape(group)).collect();
        if !listed.is_empty() {
            return Numbering::new(listed, shapes);
        }
        let stretches = counts.into_iter().zip(0..);
        let stretches = stretches.map(|(segments, group)| Stretch { group, segments });
        Numbering::new(&stretches.collect::<Vec<_>>(), shapes)
    }

    fn new(stretches: &[Stretch], shapes: Vec<Shape>) -> Numbering {
        let mut numbering = Numbering {
            stretches: Vec::new(),
            groups: vec![Vec::new(); shapes.len()],
            shapes,
            total: 0,
        };
        for stretch in stretches {
            numbering.append(*stretch);
        }
        numbering
    }

    /// Numbers the segments of a new stretch.
    pub(crate) fn append(&mut self, stretch: Stretch) {
        let group = usize::from(stretch.group);
        if self.groups.len() <= group {
            self.groups.resize(group + 1, Vec::new());
        }
        let first = self.count(stretch.group.into());
        self.groups[group].push(self.stretches.len());
        self.stretches.push(NumberedStretch {
            base: self.total,
            first,
            stretch,
        });
        self.total += u64::from(stretch.segments);
    }

    /// Numbers the segments of new groups.
    pub(crate) fn add_groups(&mut self, new: impl Iterator<Item = (u16, u32)>, shapes: Vec<Shape>) {
        self.shapes = shapes;
        self.groups.resize(self.shapes.len(), Vec::new());
        new.for_each(|(group, segments)| self.append(Stretch { group, segments }));
    }

    /// Returns the number of segments of a group.
    pub(crate) fn count(&self, group: u32) -> u32 {
        let last = self.groups.get(group as usize).and_then(|own| own.last());
        let last = last.map(|index| &self.stretches[*index]);
        last.map_or(0, |last| last.first + last.stretch.segments)
    }

    /// The stretches, in order. Neighbouring stretches of one group are joined.
    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        let mut all: Vec<Stretch> = Vec::new();
        for NumberedStretch { stretch, .. } in &self.stretches {
            match all.last_mut() {
                _ if stretch.segments == 0 => {}
                Some(last) if last.group == stretch.group => last.segments += stretch.segments,
                _ => all.push(*stretch),
            }
        }
        all
    }

    /// The shape of a group. Any shape if the group does not exist.
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

    /// The raw units that an extent takes in its segment.
    pub(crate) fn span(&self, extent: &StoredExtent) -> UnitSpan {
        UnitSpan {
            segment: extent.segment,
            start: extent.start,
            units: self.shape(extent.segment.group()).taken(extent.units),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The numbers that the segments of a group have.
    pub(crate) fn ranges(&self, group: u32) -> Vec<Range<u64>> {
        let own = self.groups.get(group as usize).into_iter().flatten();
        let own = own.map(|index| &self.stretches[*index]);
        own.map(|own| own.base..own.base + u64::from(own.stretch.segments))
            .collect()
    }

    /// The number of a segment, if it exists.
    pub(crate) fn number(&self, segment: store::SegmentId) -> Option<u64> {
        let (own, index) = (self.groups.get(segment.group() as usize)?, segment.index());
        let after = own.partition_point(|at| self.stretches[*at].first <= index);
        let NumberedStretch {
            base,
            first,
            stretch,
        } = &self.stretches[*own.get(after.checked_sub(1)?)?];
        let into = index - first;
        (into < stretch.segments).then(|| base + u64::from(into))
    }

    /// The segment with a number. It must exist.
    pub(crate) fn segment(&self, number: u64) -> store::SegmentId {
        let after = self.stretches.partition_point(|s| s.base <= number);
        let NumberedStretch {
            base,
            first,
            stretch,
        } = &self.stretches[after - 1];
        store::SegmentId::new(stretch.group, first + (number - base) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::SegmentId;

    #[test]
    fn numbers_and_segments_correspond() {
        let stretch = |group, segments| Stretch { group, segments };
        let groups = [stretch(0, 3), stretch(1, 5), stretch(2, 1)];
        let mut numbering = Numbering::new(&groups, vec![Shape::WHOLE; 3]);
        assert_eq!(numbering.total(), 9);
        for number in 0..9 {
            assert_eq!(numbering.number(numbering.segment(number)), Some(number));
        }
        assert_eq!(numbering.segment(3), SegmentId::new(1, 0));
        assert_eq!(numbering.number(SegmentId::new(0, 3)), None);
        assert_eq!(numbering.number(SegmentId::new(3, 0)), None);
        assert_eq!(numbering.number(SegmentId(u64::MAX)), None);
        let before: Vec<SegmentId> = (0..9).map(|number| numbering.segment(number)).collect();
        // Whatever grows, no segment gets another number.
        for grown in [stretch(0, 2), stretch(2, 4), stretch(2, 1), stretch(0, 1)] {
            numbering.append(grown);
        }
        let all = (0..numbering.total()).map(|number| numbering.segment(number));
        let all: Vec<SegmentId> = all.collect();
        assert_eq!(all[..9], before);
        assert_eq!(all[9..11], [SegmentId::new(0, 3), SegmentId::new(0, 4)]);
        assert_eq!(
            (all[15], all[16]),
            (SegmentId::new(2, 5), SegmentId::new(0, 5))
        );
        for (number, segment) in (0..).zip(&all) {
            assert_eq!(numbering.number(*segment), Some(number));
        }
        assert_eq!(numbering.number(SegmentId::new(0, 6)), None);
        assert_eq!(numbering.ranges(0), [0..3, 9..11, 16..17]);
        assert_eq!(numbering.ranges(7), []);
        let listed = numbering.stretches();
        let expected = [(0, 3), (1, 5), (2, 1), (0, 2), (2, 5), (0, 1)];
        assert_eq!(
            listed,
            expected.map(|(group, segments)| stretch(group, segments))
        );
        assert_eq!(Numbering::new(&listed, vec![Shape::WHOLE; 3]).total(), 17);
    }
}
