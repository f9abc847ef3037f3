//! The map: in which object each byte of the device lies.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::log_object::OBJECT_MAX;
use super::names::NUMBER_MAX;

/// The place of the bytes of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapSource {
    /// The number of the object.
    pub(crate) object: u64,
    /// The byte in the object. `None` if the range reads as zeros, because the object says so.
    pub(crate) at: Option<u32>,
    /// The number of the object that wrote this first.
    pub(crate) origin: u64,
}

impl MapSource {
    /// The source of the bytes that begin `skip` bytes later.
    fn after(self, skip: u64) -> MapSource {
        MapSource {
            at: self.at.map(|at| at + skip as u32),
            ..self
        }
    }
}

/// A part of a range, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapPiece {
    /// The first byte on the device.
    pub(crate) offset: u64,
    /// The length in bytes.
    pub(crate) len: u64,
    /// The source. `None` if nothing was written here.
    pub(crate) source: Option<MapSource>,
}

/// An extent in memory: its length and source. The map of a full TiB can have a million of them, so it is packed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct PackedExtent {
    /// With [`PackedExtent::HAS_PLACE`] the place in the object and the length, 31 bits each; without it a length of 63 bits.
    /// High half first, so that a map has no gaps.
    span: [u32; 2],
    object: [u16; 3],
    origin: [u16; 3],
}

const _: () = assert!(size_of::<PackedExtent>() == 20);
// The bytes of an extent lie in one object.
const _: () = assert!(OBJECT_MAX < 1 << 31);
// A device has no more bytes than an `i64` counts, and writers go on from the largest number that is read.
const _: () = assert!(NUMBER_MAX < 1 << 47);

impl PackedExtent {
    const HAS_PLACE: u64 = 1 << 63;
    const LOW: u64 = (1 << 31) - 1;

    fn new(len: u64, source: MapSource) -> PackedExtent {
        let span = match source.at {
            Some(at) => {
                let at = u64::from(at);
                assert!(at <= Self::LOW && len <= Self::LOW, "it lies in an object");
                Self::HAS_PLACE | at << 31 | len
            }
            None => {
                assert!(len < Self::HAS_PLACE, "it lies on a device");
                len
            }
        };
        PackedExtent {
            span: [(span >> 32) as u32, span as u32],
            object: packed_number(source.object),
            origin: packed_number(source.origin),
        }
    }

    fn span(self) -> u64 {
        u64::from(self.span[0]) << 32 | u64::from(self.span[1])
    }

    fn len(self) -> u64 {
        match self.span() {
            span if span & Self::HAS_PLACE != 0 => span & Self::LOW,
            len => len,
        }
    }

    /// Joins an extent to this one, which begins at `start`, if it continues it. Returns whether it does.
    fn join(&mut self, start: u64, (offset, len, source): (u64, u64, MapSource)) -> bool {
        let continues = start + self.len() == offset && self.source().after(self.len()) == source;
        if continues {
            *self = PackedExtent::new(self.len() + len, self.source());
        }
        continues
    }

    fn source(self) -> MapSource {
        let span = self.span();
        let has_place = span & Self::HAS_PLACE != 0;
        MapSource {
            object: number(self.object),
            at: has_place.then_some((span >> 31 & Self::LOW) as u32),
            origin: number(self.origin),
        }
    }
}

/// The number of an object in 48 bits.
fn packed_number(number: u64) -> [u16; 3] {
    assert!(number < 1 << 48, "no line has so many objects");
    [0, 16, 32].map(|bits| (number >> bits) as u16)
}

fn number([low, middle, high]: [u16; 3]) -> u64 {
    u64::from(high) << 32 | u64::from(middle) << 16 | u64::from(low)
}

/// The extents of a device. Extents do not overlap. One that continues the one before is joined to it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ExtentMap(BTreeMap<u64, PackedExtent>);

impl fmt::Debug for ExtentMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl ExtentMap {
    /// Enters what an object says of a range: its bytes, or that it reads as zeros. Extents of a younger origin stay.
    /// `released` gets every piece that is not in the map any more.
    ///
    /// Returns the bytes that were entered.
    pub(crate) fn enter(
        &mut self,
        range: Range<u64>,
        origin: u64,
        (object, at): (u64, Option<u32>),
        mut released: impl FnMut(&MapSource, u64),
    ) -> u64 {
        self.split(range.start);
        self.split(range.end);
        let inside = self.0.range(range.clone());
        let (older, younger): (Vec<_>, Vec<_>) = inside
            .map(|(offset, is)| (*offset, is.len(), is.source().origin > origin))
            .partition(|(_, _, is_younger)| !is_younger);
        for (offset, _, _) in older {
            if let Some(is) = self.0.remove(&offset) {
                released(&is.source(), is.len());
            }
        }
        let mut entered = 0;
        let mut add = |map: &mut Self, from: u64, to: u64| {
            if from < to {
                let source = MapSource { object, at, origin };
                map.insert(from, to - from, source.after(from - range.start));
                entered += to - from;
            }
        };
        let mut from = range.start;
        for (offset, len, _) in younger {
            add(self, from, offset);
            from = offset + len;
        }
        add(self, from, range.end);
        entered
    }

    /// The parts of a range, in order, without gaps.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Vec<MapPiece> {
        let mut pieces = Vec::new();
        let mut from = range.start;
        let before = self.0.range(..from).next_back();
        for (&offset, is) in before.into_iter().chain(self.0.range(range.clone())) {
            let (start, end) = (offset.max(from), (offset + is.len()).min(range.end));
            if start >= end {
                continue;
            }
            push_gap(&mut pieces, from, start);
            pieces.push(MapPiece {
                offset: start,
                len: end - start,
                source: Some(is.source().after(start - offset)),
            });
            from = end;
        }
        push_gap(&mut pieces, from, range.end);
        pieces
    }

    /// All extents, in order: offset, length, source.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, MapSource)> {
        let all = self.0.iter();
        all.map(|(offset, is)| (*offset, is.len(), is.source()))
    }

    /// Returns whether another map leads to the same bytes. Extents may be cut in other places.
    pub(crate) fn is_same(&self, other: &ExtentMap) -> bool {
        let joined = |map: &ExtentMap| ExtentMap::of_ordered(map.iter().map(Ok::<_, ()>));
        joined(self) == joined(other)
    }

    /// The number of extents.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The map of extents that come in order: offset, length, source. It takes half the memory of one to which they are added.
    ///
    /// # Errors
    /// The first error among the extents.
    pub(crate) fn of_ordered<E>(
        extents: impl Iterator<Item = Result<(u64, u64, MapSource), E>>,
    ) -> Result<ExtentMap, E> {
        let mut all: Vec<(u64, PackedExtent)> = Vec::new();
        for extent in extents {
            let (offset, len, source) = extent?;
            let is_joined = { all.last_mut() }
                .is_some_and(|(start, before)| before.join(*start, (offset, len, source)));
            if !is_joined {
                all.push((offset, PackedExtent::new(len, source)));
            }
        }
        Ok(ExtentMap(all.into_iter().collect()))
    }

    /// Adds an extent where none is.
    pub(crate) fn insert(&mut self, offset: u64, len: u64, source: MapSource) {
        let before = self.0.range_mut(..offset).next_back();
        if !before.is_some_and(|(start, before)| before.join(*start, (offset, len, source))) {
            self.0.insert(offset, PackedExtent::new(len, source));
        }
    }

    /// Cuts the extent in two in which a byte lies.
    fn split(&mut self, at: u64) {
        let Some((&offset, is)) = self.0.range_mut(..at).next_back() else {
            return;
        };
        let (len, source) = (is.len(), is.source());
        if offset + len <= at {
            return;
        }
        *is = PackedExtent::new(at - offset, source);
        let rest = PackedExtent::new(offset + len - at, source.after(at - offset));
        self.0.insert(at, rest);
    }
}

fn push_gap(pieces: &mut Vec<MapPiece>, from: u64, to: u64) {
    if from < to {
        pieces.push(MapPiece {
            offset: from,
            len: to - from,
            source: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 64;

    /// A device of 64 bytes: for each byte its object, place and origin.
    #[derive(Clone)]
    struct Bytes([Option<(u64, Option<u32>, u64)>; SIZE]);

    impl Bytes {
        fn enter(&mut self, range: Range<u64>, origin: u64, (object, at): (u64, Option<u32>)) {
            for (i, offset) in (range.start..range.end).enumerate() {
                let byte = &mut self.0[offset as usize];
                if byte.is_none_or(|(_, _, is)| is <= origin) {
                    *byte = Some((object, at.map(|at| at + i as u32), origin));
                }
            }
        }
    }

    /// A small generator of numbers.
    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *seed >> 33
    }

    #[test]
    fn the_map_says_what_a_list_of_bytes_says() {
        for mut seed in 0..300 {
            let mut map = ExtentMap::default();
            let mut bytes = Bytes([None; SIZE]);
            let mut live: BTreeMap<u64, i64> = BTreeMap::new();
            for object in 1..40 {
                let start = next(&mut seed) % 60;
                let range = start..start + 1 + next(&mut seed) % (SIZE as u64 - start);
                let origin = object - next(&mut seed) % object.min(4);
                let source = match next(&mut seed) % 5 {
                    0 | 1 => (object, None),
                    _ => (object, Some(100)),
                };
                let mut gone = Vec::new();
                let entered = map.enter(range.clone(), origin, source, |is, len| {
                    gone.push((is.object, len));
                });
                *live.entry(object).or_default() += entered as i64;
                for (object, len) in gone {
                    *live.entry(object).or_default() -= len as i64;
                }
                bytes.enter(range, origin, source);
            }
            let pieces = map.pieces(0..SIZE as u64);
            let shown = pieces.iter().flat_map(|piece| {
                let source = piece.source;
                (0..piece.len).map(move |i| source.map(|is| (is.object, is.after(i).at, is.origin)))
            });
            assert!(shown.eq(bytes.0), "seed {seed}: {pieces:?}");
            for (object, live) in live {
                let held = bytes.0.iter().flatten().filter(|(is, _, _)| *is == object);
                assert_eq!(held.count() as i64, live, "object {object}");
            }
        }
    }

    #[test]
    fn extents_are_read_as_they_were_packed() {
        let numbers = [1, 0xffff, 0x1_0000, NUMBER_MAX];
        let small = [1, 4096, OBJECT_MAX];
        let spans = small.map(|len| (Some(OBJECT_MAX as u32), len));
        let zeros = [1, 1 << 31, i64::MAX as u64].map(|len| (None, len));
        for (at, len) in [(Some(0), 1)].into_iter().chain(spans).chain(zeros) {
            for (object, origin) in numbers.into_iter().zip(numbers.into_iter().rev()) {
                let source = MapSource { object, at, origin };
                let packed = PackedExtent::new(len, source);
                assert_eq!((packed.len(), packed.source()), (len, source));
            }
        }
    }

    #[test]
    fn what_continues_is_one_extent() {
        let mut map = ExtentMap::default();
        for i in 0..4_u64 {
            map.enter(i * 8..i * 8 + 8, 5, (5, Some(i as u32 * 8)), |_, _| ());
        }
        assert_eq!(map.len(), 1);
        assert_eq!(map.pieces(4..12).len(), 1);
        assert_eq!(map.pieces(40..48)[0].source, None);
    }
}
