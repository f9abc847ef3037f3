//! Reconstructs a record that has no good copy: each part comes from a copy in which that part is good.
//!
//! A pointer names up to two copies. Each copy is on every member of its group; a group with parity can be read in
//! several ways instead. If the copies differ in a part, it is unknown which one is right. So all combinations are
//! tried, if they are few. A part is a unit; in a group with parity it is a run.

use std::collections::BTreeSet;
use std::ops::Range;

use store::{Store, UNIT};

use crate::format::records::pointer::RecordLocation;
use crate::storage::gang::GangPiece;

/// More combinations than this are not tried.
const COMBINATIONS_MAX: usize = 256;

/// The different contents that each part of a record has in its copies.
#[derive(Debug, Default)]
pub(crate) struct Variants {
    parts: Vec<(Range<usize>, Vec<Vec<u8>>)>,
}

impl Variants {
    /// Reads all copies of a place, part by part. `runs` says where the bytes of a copy lie.
    pub(crate) fn read(
        store: &Store,
        place: &RecordLocation,
        runs: impl Fn(usize) -> Vec<GangPiece>,
    ) -> Variants {
        let runs = place.copy_numbers().flat_map(runs);
        let pieces: Vec<GangPiece> = runs.flat_map(|run| pieces(store, &run)).collect();
        let mut cuts: BTreeSet<usize> = pieces.iter().map(|piece| piece.bytes.start).collect();
        cuts.insert(place.disk_size() as usize);
        let mut variants = Variants::new(&cuts.into_iter().collect::<Vec<_>>());
        for piece in pieces {
            for nth in 0..store.width(piece.segment.group()) {
                let mut bytes = vec![0; piece.bytes.len()];
                let read = store.read_nth(nth, piece.segment, piece.offset, &mut bytes);
                // A member that fails has no contents to try.
                if read.is_ok() {
                    variants.add(piece.bytes.start, &bytes);
                }
            }
        }
        variants
    }

    fn new(cuts: &[usize]) -> Variants {
        debug_assert!(
            cuts.is_sorted_by(|a, b| a < b),
            "no part is empty, and none overlaps another one"
        );
        let parts = cuts.windows(2).map(|pair| (pair[0]..pair[1], Vec::new()));
        Variants {
            parts: parts.collect(),
        }
    }

    /// Adds bytes of the record, from `start` on.
    fn add(&mut self, start: usize, bytes: &[u8]) {
        for (range, known) in &mut self.parts {
            let from = range.start.checked_sub(start);
            let part = from.and_then(|from| bytes.get(from..from + range.len()));
            if let Some(part) = part
                && !known.iter().any(|other| other == part)
            {
                known.push(part.to_vec());
            }
        }
    }

    fn combinations(&self) -> usize {
        let counts = self.parts.iter().map(|(_, known)| known.len());
        counts.fold(1, usize::saturating_mul)
    }

    /// Tries combinations until `accept` accepts one. It is in `buf` then.
    pub(crate) fn any(&self, buf: &mut [u8], accept: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let count = match self.combinations() {
            count if count <= COMBINATIONS_MAX => count,
            _ => 0,
        };
        // If no copy of a part could be read, there is no combination at all.
        (0..count).any(|mut number| {
            for (range, known) in &self.parts {
                if let Some(buf) = buf.get_mut(range.clone()) {
                    buf.copy_from_slice(&known[number % known.len()]);
                }
                number /= known.len();
            }
            accept(buf)
        })
    }
}

/// Cuts a run into parts that can be read alone.
fn pieces(store: &Store, run: &GangPiece) -> Vec<GangPiece> {
    if store.shape(run.segment.group()).has_parity() {
        return vec![run.clone()];
    }
    let starts = run.bytes.clone().step_by(UNIT as usize);
    let unit = |at: usize| GangPiece {
        segment: run.segment,
        offset: run.offset + (at - run.bytes.start) as u32,
        bytes: at..(at + UNIT as usize).min(run.bytes.end),
    };
    starts.map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(byte: u8) -> Vec<u8> {
        vec![byte; UNIT as usize]
    }

    fn variants(units: &[&[u8]]) -> Variants {
        let cuts: Vec<usize> = (0..=units.len()).map(|n| n * UNIT as usize).collect();
        let mut variants = Variants::new(&cuts);
        for (start, bytes) in cuts.iter().zip(units) {
            bytes
                .iter()
                .for_each(|byte| variants.add(*start, &unit(*byte)));
        }
        variants
    }

    #[test]
    fn every_combination_is_shown() {
        let mut buf = [unit(0), unit(0), unit(0)].concat();
        let variants = variants(&[&[1, 9, 1], &[2], &[8, 3]]);
        let wanted = [unit(9), unit(2), unit(3)].concat();
        assert!(variants.any(&mut buf, &mut |bytes| bytes == wanted));
        assert_eq!(buf, wanted);
        let mut shown = 0;
        assert!(!variants.any(&mut buf, &mut |_| {
            shown += 1;
            false
        }));
        assert_eq!(shown, 4);
    }

    #[test]
    fn what_no_device_has_and_what_is_too_much_is_not_tried() {
        let mut buf = [unit(0), unit(0)].concat();
        assert!(!variants(&[&[1], &[]]).any(&mut buf, &mut |_| true));
        let many: Vec<u8> = (0..100).collect();
        assert!(!variants(&[&many, &many]).any(&mut buf, &mut |_| true));
    }
}
