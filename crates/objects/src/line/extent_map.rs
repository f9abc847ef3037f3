//! The map: in which object each byte of the device lies.

use std::collections::BTreeMap;
use std::ops::Range;

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

/// The extents of a device. Extents do not overlap. One that continues the one before is joined to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtentMap(BTreeMap<u64, (u64, MapSource)>);

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
            .map(|(offset, (len, is))| (*offset, *len, is.origin > origin))
            .partition(|(_, _, is_younger)| !is_younger);
        for (offset, _, _) in older {
            if let Some((len, is)) = self.0.remove(&offset) {
                released(&is, len);
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
        for (&offset, &(len, source)) in before.into_iter().chain(self.0.range(range.clone())) {
            let (start, end) = (offset.max(from), (offset + len).min(range.end));
            if start >= end {
                continue;
            }
            push_gap(&mut pieces, from, start);
            pieces.push(MapPiece {
                offset: start,
                len: end - start,
                source: Some(source.after(start - offset)),
            });
            from = end;
        }
        push_gap(&mut pieces, from, range.end);
        pieces
    }

    /// All extents, in order: offset, length, source.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &MapSource)> {
        self.0.iter().map(|(offset, (len, is))| (*offset, *len, is))
    }

    /// Returns whether another map leads to the same bytes. Extents may be cut in other places.
    pub(crate) fn is_same(&self, other: &ExtentMap) -> bool {
        let joined = |map: &ExtentMap| {
            let mut joined = ExtentMap::default();
            for (offset, len, source) in map.iter() {
                joined.insert(offset, len, *source);
            }
            joined
        };
        joined(self) == joined(other)
    }

    /// The number of extents.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds an extent where none is.
    pub(crate) fn insert(&mut self, offset: u64, len: u64, source: MapSource) {
        if let Some((&start, (before, is))) = self.0.range_mut(..offset).next_back()
            && start + *before == offset
            && is.after(*before) == source
        {
            *before += len;
            return;
        }
        self.0.insert(offset, (len, source));
    }

    /// Cuts the extent in two in which a byte lies.
    fn split(&mut self, at: u64) {
        let Some((&offset, (len, source))) = self.0.range_mut(..at).next_back() else {
            return;
        };
        if offset + *len <= at {
            return;
        }
        let rest = (offset + *len - at, source.after(at - offset));
        *len = at - offset;
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
