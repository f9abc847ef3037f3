//! Gangs: if no free run is long enough for a record, the record is stored in pieces.
//!
//! The addresses of a gang point to a *gang map*: one unit that lists the pieces of every copy. Each copy of the
//! record has a copy of the map, and all maps are equal. So a damaged map is repaired from another copy. The place
//! has the first bytes of the map's checksum. They tell this map from the map of an earlier record at the same
//! address. The identity of the record, and the checksum of its bytes, do not depend on the pieces.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use store::{SegmentId, Shape, Store, UNIT};

use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::records::extent::StoredExtent;
use crate::format::records::pointer::{Addr, GangMark, RecordLocation};
use crate::storage::writer::batch::BatchPiece;

const MAGIC: u64 = u64::from_le_bytes(*b"SR-SCATT");
pub(crate) const MAP_LEN: usize = UNIT as usize;
pub(crate) const CHECKSUM: usize = 32;
/// The bytes of a piece. The magic and three numbers precede the pieces.
const PIECE: usize = 8;
const HEAD: usize = 16;

/// The largest number of pieces in a map.
pub(crate) const PIECES_MAX: usize = (MAP_LEN - CHECKSUM - HEAD) / PIECE;

/// The numbers of a group's units in a map are below this. It is enough for 4 PiB.
const UNIT_LIMIT: u64 = 1 << 40;
/// A piece has at most this many units.
const PIECE_UNITS: u32 = 256;

/// The bounds of the pool: the segments and the layout of each group, and the units of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) groups: Vec<(u32, Shape)>,
    pub(crate) units: u32,
}

impl Bounds {
    pub(crate) fn of(store: &Store) -> Bounds {
        Bounds {
            groups: store
                .groups()
                .into_iter()
                .zip(0..)
                .map(|(segments, group)| (segments, store.shape(group)))
                .collect(),
            units: store.segment_size() / UNIT,
        }
    }

    /// The number of a unit in its group.
    fn number(&self, segment: SegmentId, unit: u32) -> u64 {
        u64::from(segment.index()) * u64::from(self.units) + u64::from(unit)
    }

    /// A piece in the form of the map, or `None` if its number is too large for a map.
    pub(crate) fn pack(&self, piece: &StoredExtent) -> Option<u64> {
        let unit = self.number(piece.segment, piece.start);
        let fits = unit < UNIT_LIMIT && (1..=PIECE_UNITS).contains(&piece.units);
        let group = u64::from(piece.segment.group());
        fits.then(|| group << 48 | unit << 8 | u64::from(piece.units - 1))
    }

    /// The piece that a number in a map means, if it lies in a segment of the pool.
    pub(crate) fn unpack(&self, packed: u64) -> Option<StoredExtent> {
        let group = (packed >> 48) as u16;
        let unit = (packed >> 8) & (UNIT_LIMIT - 1);
        let units = (packed & 0xff) as u32 + 1;
        let index = u32::try_from(unit / u64::from(self.units)).ok()?;
        let start = (unit % u64::from(self.units)) as u32;
        let (segments, shape) = self.groups.get(usize::from(group))?;
        let exists = index < *segments && start + shape.taken(units) <= self.units;
        exists.then_some(StoredExtent {
            segment: SegmentId::new(group, index),
            start,
            units,
        })
    }
}

/// The pieces of every copy of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gang {
    /// The pieces of each copy, in the order of the record's bytes. The second list is empty if there is one copy.
    pub(crate) copies: [Vec<StoredExtent>; 2],
}

impl Gang {
    /// The bytes of the map, or `None` if it cannot hold these pieces.
    pub(crate) fn encode(&self, bounds: &Bounds) -> Option<Vec<u8>> {
        let [first, second] = &self.copies;
        if first.len() + second.len() > PIECES_MAX {
            return None;
        }
        let units: u32 = first.iter().map(|piece| piece.units).sum();
        let mut w = ValueWriter::default();
        w.u64(MAGIC).u32(units);
        w.u16(first.len() as u16).u16(second.len() as u16);
        for piece in first.iter().chain(second) {
            w.u64(bounds.pack(piece)?);
        }
        w.bytes.resize(MAP_LEN - CHECKSUM, 0);
        let sum = blake3::hash(&w.bytes);
        w.bytes.extend_from_slice(sum.as_bytes());
        Some(w.bytes)
    }

    /// Decodes the map of a place. `None` if the bytes are damaged or the map of another place, or if pieces do not
    /// exist, overlap, or do not add up to the record.
    pub(crate) fn decode(bytes: &[u8], place: &RecordLocation, bounds: &Bounds) -> Option<Gang> {
        let (body, sum) = bytes.split_at_checked(MAP_LEN - CHECKSUM)?;
        if blake3::hash(body).as_bytes() != sum || place.gang_mark() != Some(mark_of(bytes)) {
            return None;
        }
        let mut r = ValueReader::new(body);
        if r.u64()? != MAGIC {
            return None;
        }
        let units = r.u32()?;
        let counts = [r.u16()?, r.u16()?];
        if counts.iter().map(|n| usize::from(*n)).sum::<usize>() > PIECES_MAX {
            return None;
        }
        let mut pieces = |count| (0..count).map(|_| bounds.unpack(r.u64()?)).collect();
        let first: Option<Vec<StoredExtent>> = pieces(counts[0]);
        let second: Option<Vec<StoredExtent>> = pieces(counts[1]);
        let gang = Gang {
            copies: [first?, second?],
        };
        (u64::from(units) * u64::from(UNIT) == u64::from(place.disk_size())
            && gang.fits(place)
            && gang.is_disjoint(place, bounds))
        .then_some(gang)
    }

    /// Returns whether each copy has as many units as the record.
    fn fits(&self, place: &RecordLocation) -> bool {
        let units = u64::from(place.disk_size() / UNIT);
        self.copies.iter().zip(&place.addr).all(|(pieces, addr)| {
            let sum: u64 = pieces.iter().map(|piece| u64::from(piece.units)).sum();
            sum == if addr.is_empty() { 0 } else { units }
        })
    }

    /// Returns whether no unit is in two pieces, or in a piece and a map.
    fn is_disjoint(&self, place: &RecordLocation, bounds: &Bounds) -> bool {
        let maps = place.copies().map(|addr| map_extent(&addr));
        let mut seen = BTreeSet::new();
        let mut all = self.copies.iter().flatten().copied().chain(maps);
        all.all(|extent| {
            let group = bounds.groups.get(extent.segment.group() as usize);
            let shape = group.map_or(Shape::WHOLE, |(_, shape)| *shape);
            let end = extent.start.saturating_add(shape.taken(extent.units));
            (extent.start..end).all(|unit| seen.insert((extent.segment, unit)))
        })
    }

    /// The pieces of a copy, each with the range of the record's bytes that it holds.
    pub(crate) fn runs(&self, copy: usize) -> Vec<GangPiece> {
        GangPiece::default().cut(&self.copies[copy])
    }
}

/// The first bytes of a map's checksum. The place of a gang contains them.
pub(crate) fn mark_of(map: &[u8]) -> GangMark {
    let mut mark = [0; 7];
    mark.copy_from_slice(&map[MAP_LEN - CHECKSUM..][..7]);
    mark
}

/// The unit of a map.
pub(crate) fn map_extent(addr: &Addr) -> StoredExtent {
    StoredExtent {
        segment: addr.segment(),
        start: addr.offset() / UNIT,
        units: 1,
    }
}

/// A part of a record, and its units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GangPiece {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u32,
    /// The bytes of the record in the piece.
    pub(crate) bytes: Range<usize>,
}

impl GangPiece {
    /// A whole record that begins at an address.
    pub(crate) fn of(addr: &Addr) -> GangPiece {
        GangPiece {
            segment: addr.segment(),
            offset: addr.offset(),
            bytes: 0..addr.size() as usize,
        }
    }

    /// A whole map at its address.
    pub(crate) fn of_map(addr: &Addr) -> GangPiece {
        GangPiece {
            bytes: 0..MAP_LEN,
            ..GangPiece::of(addr)
        }
    }

    /// Returns the units of the piece.
    pub(crate) fn extent(&self) -> StoredExtent {
        StoredExtent {
            segment: self.segment,
            start: self.offset / UNIT,
            units: (self.bytes.len() / UNIT as usize) as u32,
        }
    }

    /// Cuts the run into one run for each of these extents, which hold its bytes one after the other.
    pub(crate) fn cut(&self, extents: &[StoredExtent]) -> Vec<GangPiece> {
        let mut at = self.bytes.start;
        let extents = extents.iter();
        extents
            .map(|extent| {
                let from = at;
                at += extent.units as usize * UNIT as usize;
                GangPiece {
                    segment: extent.segment,
                    offset: extent.start * UNIT,
                    bytes: from..at,
                }
            })
            .collect()
    }
}

/// Allocated space for the copies of a record.
#[derive(Clone, Debug)]
pub(crate) struct AllottedSpace {
    addr: [Addr; 2],
    /// The map and its encoded bytes, if the record is a gang.
    gang: Option<(Arc<Gang>, Arc<Vec<u8>>)>,
}

impl AllottedSpace {
    /// Each copy in one run.
    pub(crate) fn whole(addr: [Addr; 2]) -> AllottedSpace {
        AllottedSpace { addr, gang: None }
    }

    /// Each copy in pieces. `addr` has the addresses of the maps. `None` if a map cannot hold the pieces.
    pub(crate) fn scattered(addr: [Addr; 2], gang: Gang, bounds: &Bounds) -> Option<AllottedSpace> {
        let bytes = gang.encode(bounds)?;
        Some(AllottedSpace {
            addr,
            gang: Some((Arc::new(gang), Arc::new(bytes))),
        })
    }

    pub(crate) fn gang(&self) -> Option<&Arc<Gang>> {
        self.gang.as_ref().map(|(gang, _)| gang)
    }

    /// The place of a record that is stored here.
    pub(crate) fn place(&self, birth: u64, checksum: [u8; 16]) -> RecordLocation {
        let mark = self.gang.as_ref().map(|(_, bytes)| mark_of(bytes));
        RecordLocation::new(self.addr, birth, checksum).with_gang_mark(mark)
    }

    /// Every unit of it.
    pub(crate) fn extents(&self) -> Vec<StoredExtent> {
        let copies = self.addr.iter().filter(|addr| !addr.is_empty());
        match &self.gang {
            None => copies.map(StoredExtent::of).collect(),
            Some((gang, _)) => all_extents(copies, gang),
        }
    }

    /// Writes every copy, with its map.
    pub(crate) fn write_to(&self, store: &Store, record: &[u8]) -> store::Result<()> {
        for (segment, offset, bytes) in self.slices(record) {
            store.write(segment, offset, &[IoSlice::new(bytes)])?;
        }
        Ok(())
    }

    /// The bytes to write, and their places.
    pub(crate) fn slices<'a>(&'a self, record: &'a [u8]) -> Vec<(SegmentId, u32, &'a [u8])> {
        self.to_write(|source| match source {
            ExtentSource::Whole => record,
            ExtentSource::Map(map) => map,
            ExtentSource::Part(range) => &record[range],
        })
    }

    /// Returns the same as [`AllottedSpace::slices`], to be written later.
    pub(crate) fn pieces(&self, record: &BatchPiece) -> Vec<(SegmentId, u32, BatchPiece)> {
        self.to_write(|source| match source {
            ExtentSource::Whole => record.clone(),
            ExtentSource::Map(map) => BatchPiece::Bytes(Arc::clone(map)),
            ExtentSource::Part(range) => record.part(range),
        })
    }

    fn to_write<'a, T>(
        &'a self,
        bytes_of: impl Fn(ExtentSource<'a>) -> T,
    ) -> Vec<(SegmentId, u32, T)> {
        let mut writes = Vec::new();
        for (copy, addr) in self.addr.iter().enumerate() {
            if addr.is_empty() {
                continue;
            }
            let (segment, offset) = (addr.segment(), addr.offset());
            let Some((gang, map)) = &self.gang else {
                writes.push((segment, offset, bytes_of(ExtentSource::Whole)));
                continue;
            };
            writes.push((segment, offset, bytes_of(ExtentSource::Map(map))));
            for run in gang.runs(copy) {
                writes.push((
                    run.segment,
                    run.offset,
                    bytes_of(ExtentSource::Part(run.bytes)),
                ));
            }
        }
        writes
    }
}

/// The bytes that are written to an extent.
enum ExtentSource<'a> {
    Whole,
    Map(&'a Arc<Vec<u8>>),
    /// A range of the record.
    Part(Range<usize>),
}

/// The units of the maps at `copies` and of all pieces.
pub(crate) fn all_extents<'a>(
    copies: impl Iterator<Item = &'a Addr>,
    gang: &Gang,
) -> Vec<StoredExtent> {
    let pieces = gang.copies.iter().flatten().copied();
    copies.map(map_extent).chain(pieces).collect()
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(crate) fn bounds() -> Bounds {
        Bounds {
            groups: vec![(8, Shape::WHOLE), (3, Shape::WHOLE)],
            units: 256,
        }
    }

    pub(crate) fn piece(group: u16, index: u32, start: u32, units: u32) -> StoredExtent {
        StoredExtent {
            segment: SegmentId::new(group, index),
            start,
            units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{bounds, piece};
    use super::*;

    fn example() -> (Gang, [Addr; 2]) {
        let gang = Gang {
            copies: [
                vec![piece(0, 1, 4, 1), piece(0, 7, 255, 1), piece(1, 2, 0, 3)],
                vec![piece(1, 0, 9, 5)],
            ],
        };
        let size = 5 * UNIT;
        let addr = [
            Addr::new(SegmentId::new(0, 0), 0, size),
            Addr::new(SegmentId::new(1, 1), 8192, size),
        ];
        (gang, addr)
    }

    fn place(gang: &Gang, addr: [Addr; 2]) -> (Vec<u8>, RecordLocation) {
        let bytes = gang.encode(&bounds()).unwrap();
        let place = RecordLocation::new(addr, 3, [0; 16]).with_gang_mark(Some(mark_of(&bytes)));
        (bytes, place)
    }

    /// The bytes of a map. They never change.
    #[test]
    fn golden_bytes() {
        let (gang, addr) = example();
        let (bytes, place) = place(&gang, addr);
        let mut expected = b"SR-SCATT".to_vec();
        expected.extend([5, 0, 0, 0, 3, 0, 1, 0]);
        expected.extend([0, 4, 1, 0, 0, 0, 0, 0]);
        expected.extend([0, 0xff, 7, 0, 0, 0, 0, 0]);
        expected.extend([2, 0, 2, 0, 0, 0, 1, 0]);
        expected.extend([4, 9, 0, 0, 0, 0, 1, 0]);
        expected.resize(4064, 0);
        assert_eq!(bytes[..4064], expected);
        assert_eq!(bytes[4064..], *blake3::hash(&expected).as_bytes());
        assert_eq!(Gang::decode(&bytes, &place, &bounds()), Some(gang));
    }

    #[test]
    fn no_changed_byte_is_taken() {
        let (gang, addr) = example();
        let (bytes, place) = place(&gang, addr);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert_eq!(Gang::decode(&bad, &place, &bounds()), None, "byte {at}");
        }
        assert_eq!(Gang::decode(&bytes[..100], &place, &bounds()), None);
        let unmarked = RecordLocation::new(addr, 3, [0; 16]);
        assert_eq!(Gang::decode(&bytes, &unmarked, &bounds()), None);
    }

    #[test]
    fn maps_that_cannot_be_are_refused() {
        let (good, addr) = example();
        let cases: [fn(&mut Gang); 5] = [
            |s| s.copies[0][0] = piece(0, 8, 4, 1),
            |s| s.copies[0][0] = piece(2, 0, 4, 1),
            |s| s.copies[0][0] = piece(1, 2, 2, 1),
            |s| s.copies[1][0] = piece(1, 1, 2, 5),
            |s| s.copies[1][0].units = 4,
        ];
        for (i, case) in cases.iter().enumerate() {
            let mut bad = good.clone();
            case(&mut bad);
            let (bytes, place) = place(&bad, addr);
            assert_eq!(Gang::decode(&bytes, &place, &bounds()), None, "case {i}");
        }
        let (bytes, _) = place(&good, addr);
        let one = [addr[0], Addr::default()];
        let place = RecordLocation::new(one, 3, [0; 16]).with_gang_mark(Some(mark_of(&bytes)));
        assert_eq!(Gang::decode(&bytes, &place, &bounds()), None, "one copy");
    }

    #[test]
    fn a_map_holds_the_largest_record() {
        let full = |copies: usize| Gang {
            copies: [0, 1].map(|copy| {
                let count = if copy < copies { 253 } else { 0 };
                (0..count).map(|n| piece(0, copy as u32, n, 1)).collect()
            }),
        };
        assert!(full(2).encode(&bounds()).is_some());
        let mut too_many = full(2);
        too_many.copies[0].push(piece(1, 0, 0, 1));
        assert!(too_many.encode(&bounds()).is_none());
        let largest = crate::format::records::pointer::RECORD_MAX / UNIT;
        assert!(largest as usize <= PIECES_MAX);
    }
}
