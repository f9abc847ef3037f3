//! Putting a record together where no copy of it is whole: each unit from whichever copy has it.
//!
//! Copies are the two of a pointer, and those of each member of their groups. Where they differ nobody
//! knows which is right, so that all combinations are tried, as long as they are few.

use store::UNIT;

use crate::disk::Disk;
use crate::layout::Place;

/// More combinations than this are not tried.
const COMBINATIONS_MAX: usize = 256;

/// The different contents that each unit of a record has in its copies.
#[derive(Debug, Default)]
pub(crate) struct Variants {
    units: Vec<Vec<Vec<u8>>>,
}

impl Variants {
    /// Reads all copies of a place, unit by unit.
    pub(crate) fn read(disk: &Disk, place: &Place) -> Variants {
        let count = (place.disk_size() / UNIT) as usize;
        let mut variants = Variants {
            units: vec![Vec::new(); count],
        };
        for copy in place.copy_numbers() {
            for run in disk.runs(place, copy).unwrap_or_default() {
                for (guid, _) in disk.store.readers(run.segment.group()) {
                    for at in run.bytes.clone().step_by(UNIT as usize) {
                        let offset = run.offset + (at - run.bytes.start) as u32;
                        let mut unit = vec![0; UNIT as usize];
                        let read = disk.store.read_member(guid, run.segment, offset, &mut unit);
                        if read.is_ok() {
                            variants.add(at / UNIT as usize, unit);
                        }
                    }
                }
            }
        }
        variants
    }

    fn add(&mut self, index: usize, unit: Vec<u8>) {
        if let Some(known) = self.units.get_mut(index)
            && !known.contains(&unit)
        {
            known.push(unit);
        }
    }

    fn combinations(&self) -> usize {
        let counts = self.units.iter().map(Vec::len);
        counts.fold(1, usize::saturating_mul)
    }

    /// Shows combinations until `accept` takes one, which is in `buf` then.
    pub(crate) fn any(&self, buf: &mut [u8], accept: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let count = match self.combinations() {
            count if count <= COMBINATIONS_MAX => count,
            _ => 0,
        };
        (0..count).any(|mut number| {
            for (unit, variants) in buf.chunks_exact_mut(UNIT as usize).zip(&self.units) {
                unit.copy_from_slice(&variants[number % variants.len()]);
                number /= variants.len();
            }
            accept(buf)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(byte: u8) -> Vec<u8> {
        vec![byte; UNIT as usize]
    }

    fn variants(units: &[&[u8]]) -> Variants {
        let mut variants = Variants {
            units: vec![Vec::new(); units.len()],
        };
        for (index, bytes) in units.iter().enumerate() {
            bytes
                .iter()
                .for_each(|byte| variants.add(index, unit(*byte)));
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
    fn what_nobody_has_and_what_is_too_much_is_not_tried() {
        let mut buf = [unit(0), unit(0)].concat();
        assert!(!variants(&[&[1], &[]]).any(&mut buf, &mut |_| true));
        let many: Vec<u8> = (0..100).collect();
        assert!(!variants(&[&many, &many]).any(&mut buf, &mut |_| true));
    }
}
