//! A page of the remap table: the new places of records that began in a part of a segment.

use std::collections::BTreeMap;

use store::UNIT;

use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::records::extent::StoredExtent;
use crate::storage::gang::Bounds;

const MAGIC: u32 = u32::from_le_bytes(*b"RMAP");

/// A page covers at most this many units of a segment.
const UNITS_MAX: u32 = 1024;

/// An extent has at most this many units.
const EXTENT_UNITS_MAX: u32 = crate::format::records::pointer::RECORD_MAX / UNIT;

/// The number of units that a page covers in a segment of `segment_units` units.
pub(super) fn units_of_page(segment_units: u32) -> u32 {
    segment_units.min(UNITS_MAX)
}

/// The largest space of a page: both copies, with two nodes above.
pub(super) fn space_for_page(segment_units: u32) -> u64 {
    let bytes = u64::from(units_of_page(segment_units)) * 16 + 8;
    2 * bytes.next_multiple_of(u64::from(UNIT)) + 4 * u64::from(UNIT)
}

/// The new places of extents, by the unit where each extent began. A unit is counted from the start of the page. The
/// pieces of an extent are in the order of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemapPage(BTreeMap<u32, Vec<StoredExtent>>);

impl RemapPage {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The new place of the extent that began at a unit.
    pub(super) fn get(&self, from: u32) -> Option<&Vec<StoredExtent>> {
        self.0.get(&from)
    }

    pub(super) fn insert(&mut self, from: u32, pieces: Vec<StoredExtent>) {
        self.0.insert(from, pieces);
    }

    pub(super) fn remove(&mut self, from: u32) -> Option<Vec<StoredExtent>> {
        self.0.remove(&from)
    }

    /// Every entry: its unit and its new place.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, &Vec<StoredExtent>)> {
        self.0.iter().map(|(from, pieces)| (*from, pieces))
    }

    /// The bytes of the page; `None` if the number of a piece is too large.
    pub(crate) fn encode(&self, bounds: &Bounds) -> Option<Vec<u8>> {
        let mut w = ValueWriter::default();
        w.u32(MAGIC).u32(self.0.len() as u32);
        for (from, pieces) in &self.0 {
            w.u32(*from).u32(pieces.len() as u32);
            for piece in pieces {
                w.u64(bounds.pack(piece)?);
            }
        }
        Some(w.bytes)
    }

    /// Decodes a page. `None` if entries overlap or do not begin in the page, or if pieces are outside of the pool.
    pub(crate) fn decode(bytes: &[u8], bounds: &Bounds) -> Option<RemapPage> {
        let mut r = ValueReader::new(bytes);
        if r.u32()? != MAGIC {
            return None;
        }
        let mut page = RemapPage::default();
        let mut free_from = 0;
        for _ in 0..r.u32()? {
            let (from, count) = (r.u32()?, r.u32()?);
            if from < free_from || from >= units_of_page(bounds.units) || count > EXTENT_UNITS_MAX {
                return None;
            }
            let pieces = (0..count).map(|_| bounds.unpack(r.u64()?));
            let pieces: Vec<StoredExtent> = pieces.collect::<Option<_>>()?;
            let units: u32 = units_of(&pieces);
            if !(1..=EXTENT_UNITS_MAX).contains(&units) {
                return None;
            }
            free_from = from + units;
            page.insert(from, pieces);
        }
        Some(page)
    }
}

#[cfg(any(test, fuzzing))]
impl RemapPage {
    /// A page with two entries.
    pub(crate) fn sample() -> RemapPage {
        let piece = |group, index, start, units| StoredExtent {
            segment: store::SegmentId::new(group, index),
            start,
            units,
        };
        let mut page = RemapPage::default();
        page.insert(3, vec![piece(0, 1, 4, 32)]);
        page.insert(40, vec![piece(1, 2, 0, 1), piece(0, 7, 255, 1)]);
        page
    }
}

/// The sum of the units of pieces.
pub(super) fn units_of(pieces: &[StoredExtent]) -> u32 {
    pieces.iter().map(|piece| piece.units).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::gang::samples::{bounds, piece};

    /// The bytes of a page. They never change.
    #[test]
    fn golden_bytes() {
        let bytes = RemapPage::sample().encode(&bounds()).unwrap();
        let mut expected = b"RMAP".to_vec();
        expected.extend([2, 0, 0, 0]);
        expected.extend([3, 0, 0, 0, 1, 0, 0, 0]);
        expected.extend([31, 4, 1, 0, 0, 0, 0, 0]);
        expected.extend([40, 0, 0, 0, 2, 0, 0, 0]);
        expected.extend([0, 0, 2, 0, 0, 0, 1, 0]);
        expected.extend([0, 0xff, 7, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, expected);
        assert_eq!(
            RemapPage::decode(&bytes, &bounds()),
            Some(RemapPage::sample())
        );
    }

    #[test]
    fn pages_that_cannot_be_are_refused() {
        let hostile: [fn(&mut RemapPage); 5] = [
            |page| page.insert(256, vec![piece(0, 0, 0, 1)]),
            |page| page.insert(34, vec![piece(0, 0, 0, 1)]),
            |page| page.insert(100, Vec::new()),
            |page| page.insert(100, vec![piece(0, 0, 0, 200), piece(0, 1, 0, 57)]),
            |page| page.insert(100, vec![piece(1, 3, 0, 1)]),
        ];
        for (n, change) in hostile.iter().enumerate() {
            let mut page = RemapPage::sample();
            change(&mut page);
            let bytes = page.encode(&bounds()).unwrap();
            assert_eq!(RemapPage::decode(&bytes, &bounds()), None, "case {n}");
        }
        let bytes = RemapPage::sample().encode(&bounds()).unwrap();
        for len in 0..bytes.len() {
            assert_eq!(
                RemapPage::decode(&bytes[..len], &bounds()),
                None,
                "{len} bytes"
            );
        }
    }
}
