//! The journal: sections in a ring, each with blocks and where they belong.
//!
//! Every sector of a section ends with a commit id. The id is made of the number of the section, the number of the
//! sector, and one of four sequence numbers. The bytes of data that it displaces are in the block's entry. The
//! sequence number grows by one, modulo four, each time the ring begins again. So the sections behind the newest one
//! have the number before its own, and a section that was not written whole has two of them. The last section, and
//! the next one to write, follow from the ids alone ([`ReplayPlan`]).
//!
//! The journal is carried out again whenever the ring is read: a repeated write only puts the same bytes at the same
//! address.

use super::superblock::{ENTRY_SECTORS, JournalSection};
use crate::model::SECTOR;

const SEQUENCES: u8 = 4;

const IDS: [u64; SEQUENCES as usize] = [
    0x1111_1111_1111_1111,
    0x2222_2222_2222_2222,
    0x3333_3333_3333_3333,
    0x4444_4444_4444_4444,
];

/// The high half of a block's sector number in an entry that is not used.
const UNUSED: u32 = u32::MAX;

const SECTOR_LEN: usize = SECTOR as usize;
/// The offset of the commit id in a sector.
const ID_AT: usize = SECTOR_LEN - 8;

/// The sequence number after this.
pub(super) fn next(sequence: u8) -> u8 {
    (sequence + 1) % SEQUENCES
}

fn before(sequence: u8) -> u8 {
    (sequence + SEQUENCES - 1) % SEQUENCES
}

pub(super) fn commit_id(section: u32, sector: usize, sequence: u8) -> [u8; 8] {
    let number = u64::from(section) << 32 | sector as u64;
    (IDS[usize::from(sequence)] ^ number).to_le_bytes()
}

/// A block in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) block: u64,
    pub(super) tag: &'a [u8],
    pub(super) data: &'a [u8],
}

impl JournalSection {
    /// Returns the offset of an entry in a section, in bytes.
    fn entry_at(&self, n: usize) -> usize {
        n % ENTRY_SECTORS * SECTOR_LEN + n / ENTRY_SECTORS * self.entry_len
    }

    /// Returns the offset of the block of an entry in a section, in bytes.
    fn block_at(&self, n: usize) -> usize {
        ENTRY_SECTORS * SECTOR_LEN + n * self.block()
    }

    /// Adds a section with these blocks, at most as many as it has space for, to `out`.
    pub(super) fn encode<'a>(
        &self,
        number: u32,
        sequence: u8,
        blocks: impl Iterator<Item = Entry<'a>>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.resize(start + self.len(), 0);
        let section = &mut out[start..];
        for n in 0..self.entries {
            let at = self.entry_at(n) + 4;
            section[at..at + 4].copy_from_slice(&UNUSED.to_le_bytes());
        }
        for (n, entry) in blocks.take(self.entries).enumerate() {
            let first = entry.block * self.block_sectors as u64;
            let at = self.entry_at(n);
            section[at..at + 8].copy_from_slice(&first.to_le_bytes());
            for (s, sector) in entry.data.chunks_exact(SECTOR_LEN).enumerate() {
                section[at + 8 + 8 * s..at + 16 + 8 * s].copy_from_slice(&sector[ID_AT..]);
            }
            let tag_at = at + 8 + 8 * self.block_sectors;
            section[tag_at..tag_at + self.tag_len].copy_from_slice(entry.tag);
            let data_at = self.block_at(n);
            section[data_at..data_at + self.block()].copy_from_slice(entry.data);
        }
        for (s, sector) in section.chunks_exact_mut(SECTOR_LEN).enumerate() {
            sector[ID_AT..].copy_from_slice(&commit_id(number, s, sequence));
        }
    }

    /// Reads the sequence numbers of a section, and whether it has blocks.
    ///
    /// # Errors
    /// If a sector has no commit id.
    pub(super) fn survey(&self, number: u32, section: &[u8]) -> Result<Survey, String> {
        let mut sequences = 0;
        for (s, sector) in section.chunks_exact(SECTOR_LEN).enumerate() {
            let found = (0..SEQUENCES).find(|q| sector[ID_AT..] == commit_id(number, s, *q));
            let sequence = found.ok_or_else(|| {
                format!("sector {s} of section {number} of its journal was not written by it")
            })?;
            sequences |= 1 << sequence;
        }
        Ok(Survey {
            sequences,
            is_empty: (0..self.entries).all(|n| self.sector_of(section, n).is_none()),
        })
    }

    /// Restores the bytes that the commit ids displaced.
    pub(super) fn restore(&self, section: &mut [u8]) {
        for n in 0..self.entries {
            let (at, data_at) = (self.entry_at(n) + 8, self.block_at(n));
            for s in 0..self.block_sectors {
                let id_at = data_at + s * SECTOR_LEN + ID_AT;
                section.copy_within(at + 8 * s..at + 8 * s + 8, id_at);
            }
        }
    }

    /// The blocks of a section that was [restored](JournalSection::restore), with the sectors where they belong.
    pub(super) fn entries<'a>(
        &'a self,
        section: &'a [u8],
    ) -> impl Iterator<Item = (u64, Entry<'a>)> {
        (0..self.entries).filter_map(|n| {
            let first = self.sector_of(section, n)?;
            let tag_at = self.entry_at(n) + 8 + 8 * self.block_sectors;
            let data_at = self.block_at(n);
            let entry = Entry {
                block: first / self.block_sectors as u64,
                tag: &section[tag_at..tag_at + self.tag_len],
                data: &section[data_at..data_at + self.block()],
            };
            Some((first, entry))
        })
    }

    /// The sector where the block of an entry belongs, if the entry is used.
    fn sector_of(&self, section: &[u8], n: usize) -> Option<u64> {
        let at = self.entry_at(n);
        let bytes: [u8; 8] = section[at..at + 8].try_into().expect("eight bytes");
        let sector = u64::from_le_bytes(bytes);
        ((sector >> 32) as u32 != UNUSED).then_some(sector)
    }
}

/// The summary of a section, from which the state of the ring follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Survey {
    /// A bit for each sequence number that occurs.
    pub(super) sequences: u8,
    pub(super) is_empty: bool,
}

/// The steps that recover a journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReplayPlan {
    /// The oldest section: carrying out begins here.
    pub(super) oldest: u32,
    /// The number of sections that are carried out.
    pub(super) replayed: u32,
    /// True if no section has a block.
    pub(super) is_empty: bool,
    pub(super) then: RingContinuation,
}

/// The way in which the ring continues after the recovery.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RingContinuation {
    /// The ring continues with the oldest section and this sequence number.
    Continue(u8),
    /// Some sections are not whole: all of them are emptied, with this sequence number.
    Clear(u8),
}

impl ReplayPlan {
    /// Reads the state of the journal from what is known of its sections; there is at least one.
    ///
    /// # Errors
    /// If it cannot have come about.
    pub(super) fn new(sections: &[Survey]) -> Result<ReplayPlan, String> {
        let used = sections.iter().fold(0, |all, one| all | one.sequences);
        let has = |sequence: u8| used & 1 << sequence != 0;
        // The newest number is one after which none is; if several are, the ring was being emptied.
        let newest = match has(SEQUENCES - 1) {
            false => (0..SEQUENCES).rev().find(|s| has(*s)),
            true => (0..SEQUENCES).find(|s| !has(*s)).map(before),
        };
        let newest = newest.ok_or("its journal has all sequence numbers at once")?;
        let mut want = before(newest);
        let was_being_emptied = !has(want) && has(before(want));
        let behind_newest = sections
            .iter()
            .rposition(|one| one.sequences & 1 << newest != 0)
            .map_or(0, |last| last + 1);
        let count = sections.len();
        let oldest = behind_newest % count;
        if behind_newest == count {
            want = newest;
        }
        let mut replayed = 0;
        for at in (oldest..count).chain(0..oldest) {
            if sections[at].sequences != 1 << want {
                break;
            }
            replayed += 1;
            if at + 1 == count {
                want = next(want);
            }
        }
        Ok(ReplayPlan {
            oldest: oldest as u32,
            replayed,
            is_empty: was_being_emptied || sections.iter().all(|one| one.is_empty),
            then: match replayed as usize == count {
                true => RingContinuation::Continue(want),
                false => RingContinuation::Clear(before(before(newest))),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> JournalSection {
        JournalSection {
            tag_len: 28,
            block_sectors: 2,
            entries: 8 * 9,
            entry_len: 56,
            sectors: 8 + 8 * 9 * 2,
        }
    }

    fn ring(sequences: &[u8]) -> ReplayPlan {
        let surveys = sequences.iter().map(|bits| Survey {
            sequences: *bits,
            is_empty: false,
        });
        ReplayPlan::new(&surveys.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn sections_come_back() {
        let shape = section();
        let blocks: Vec<(u64, Vec<u8>, Vec<u8>)> = (0..70u8)
            .map(|n| (u64::from(n) * 3, vec![n; 28], vec![n ^ 0x55; 1024]))
            .collect();
        let entries = || {
            blocks.iter().map(|(block, tag, data)| Entry {
                block: *block,
                tag,
                data,
            })
        };
        let mut bytes = Vec::new();
        shape.encode(7, 2, entries(), &mut bytes);
        assert_eq!(bytes.len(), shape.len());
        let survey = shape.survey(7, &bytes).unwrap();
        assert_eq!((survey.sequences, survey.is_empty), (1 << 2, false));
        assert!(shape.survey(8, &bytes).is_err(), "it is another section");
        shape.restore(&mut bytes);
        let found: Vec<_> = shape.entries(&bytes).map(|(_, entry)| entry).collect();
        assert_eq!(found, entries().collect::<Vec<_>>());
        let mut empty = Vec::new();
        shape.encode(0, 0, std::iter::empty(), &mut empty);
        assert!(shape.survey(0, &empty).unwrap().is_empty);
    }

    #[test]
    fn the_ring_says_what_is_oldest_and_how_to_go_on() {
        let plan = |oldest, replayed, then| ReplayPlan {
            oldest,
            replayed,
            is_empty: false,
            then,
        };
        // New; after some sections; after all of them; with the numbers going round.
        assert_eq!(ring(&[1, 1, 1]), plan(0, 3, RingContinuation::Continue(1)));
        assert_eq!(ring(&[2, 2, 1]), plan(2, 3, RingContinuation::Continue(1)));
        assert_eq!(ring(&[2, 2, 2]), plan(0, 3, RingContinuation::Continue(2)));
        assert_eq!(ring(&[8, 4, 4]), plan(1, 3, RingContinuation::Continue(3)));
        assert_eq!(ring(&[1, 8, 8]), plan(1, 3, RingContinuation::Continue(0)));
        // The power failed while the second was written, then the last: the others are carried out.
        assert_eq!(ring(&[2, 3, 1]), plan(2, 2, RingContinuation::Clear(3)));
        assert_eq!(ring(&[2, 2, 3]), plan(0, 2, RingContinuation::Clear(3)));
        // While it was being emptied: nothing is carried out again, or not everything.
        assert_eq!(ring(&[4, 1, 2]).replayed, 0);
        assert!(ring(&[4, 1, 1]).is_empty);
    }

    #[test]
    fn all_numbers_at_once_are_refused() {
        let all = Survey {
            sequences: 0xf,
            is_empty: true,
        };
        assert!(ReplayPlan::new(&[all]).is_err());
    }
}
