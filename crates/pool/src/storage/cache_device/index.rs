//! The index of a cache device: a ring, in which the newest entry replaces the oldest.
//!
//! In memory an entry takes 32 bytes, and a share of the spare space of two tables: about 50 bytes in all, and at most 71.
//! On the device it takes 16.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};

/// Identifies a record or node by the beginning of its checksum. Two with the same beginning cause a miss.
pub(crate) type CacheKey = u64;

/// A device has at most this many entries. They take 200 MiB of memory; with records of 128 KiB they hold 512 GiB.
pub(crate) const ENTRIES_MAX: usize = 4 << 20;

/// The bytes of the head of an encoded index, and of an entry.
const HEAD: usize = 8;
const ENTRY: usize = 16;

/// A run of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSpan {
    pub(crate) start: u32,
    pub(crate) units: u32,
}

/// The contents of a device.
pub(crate) struct Index {
    /// The number of units of the device.
    units: u32,
    entries_max: usize,
    /// The unit of the next entry.
    head: u32,
    /// The entries by key. A fixed hash is enough: the keys are checksums, and an attacker gains nothing from
    /// collisions.
    spans: HashMap<CacheKey, CacheSpan, BuildHasherDefault<DefaultHasher>>,
    /// The entries, the oldest first. Some of them are removed already.
    order: VecDeque<(CacheKey, u32)>,
    /// Units that are in use.
    held: u64,
}

impl Index {
    pub(crate) fn new(units: u32, entries_max: usize) -> Index {
        Index {
            units,
            entries_max,
            head: 0,
            spans: HashMap::default(),
            order: VecDeque::new(),
            held: 0,
        }
    }

    pub(crate) fn get(&self, key: CacheKey) -> Option<CacheSpan> {
        self.spans.get(&key).copied()
    }

    /// The number of used units.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn entries(&self) -> u64 {
        self.spans.len() as u64
    }

    /// Frees a run of `units` units by forgetting its entries. `None` if the device is smaller.
    pub(crate) fn make_space(&mut self, units: u32) -> Option<u32> {
        if units > self.units {
            return None;
        }
        if units > self.units - self.head {
            self.forget_from(self.head, self.units);
            self.head = 0;
        }
        let start = self.head;
        self.head += units;
        self.forget_from(start, self.head);
        Some(start)
    }

    /// Forgets the oldest entries as long as they begin at or after `start`, and before `end`.
    fn forget_from(&mut self, start: u32, end: u32) {
        while let Some((_, at)) = self.order.front()
            && (start..end).contains(at)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((key, at)) = self.order.pop_front() {
            self.remove(key, at);
        }
    }

    /// Enters records that were written to a freed run, in order.
    pub(crate) fn insert(&mut self, key: CacheKey, span: CacheSpan) {
        if let Some(old) = self.spans.insert(key, span) {
            self.held -= u64::from(old.units);
        }
        self.held += u64::from(span.units);
        self.order.push_back((key, span.start));
        while self.order.len() > self.entries_max {
            self.forget_oldest();
        }
    }

    /// Takes out the entry that begins at a unit, if it is still there.
    pub(crate) fn remove(&mut self, key: CacheKey, start: u32) -> bool {
        let is_it = self.spans.get(&key).is_some_and(|span| span.start == start);
        if is_it && let Some(span) = self.spans.remove(&key) {
            self.held -= u64::from(span.units);
        }
        is_it
    }

    /// Encodes the newest entries, in at most `bytes_max` bytes: the head, then each entry, the oldest first.
    pub(crate) fn encode(&self, bytes_max: usize) -> Vec<u8> {
        let live = self.order.iter().filter_map(|(key, start)| {
            let span = self.get(*key).filter(|span| span.start == *start)?;
            Some((key, span))
        });
        let live: Vec<(&CacheKey, CacheSpan)> = live.collect();
        let count = live.len().min(bytes_max.saturating_sub(HEAD) / ENTRY);
        let mut bytes = u64::from(self.head).to_le_bytes().to_vec();
        for (key, span) in &live[live.len() - count..] {
            bytes.extend(key.to_le_bytes());
            bytes.extend(span.start.to_le_bytes());
            bytes.extend(span.units.to_le_bytes());
        }
        bytes
    }

    /// Enters what [`Index::encode`] wrote, if it is possible on this device. What an entry leads to is checked when it is
    /// read.
    pub(crate) fn decode(&mut self, bytes: &[u8]) {
        self.clear();
        let Some((head, entries)) = bytes.split_first_chunk() else {
            return;
        };
        let head = u64::from_le_bytes(*head);
        self.head = u32::try_from(head).unwrap_or(u32::MAX).min(self.units);
        let (entries, _) = entries.as_chunks::<ENTRY>();
        for entry in entries {
            let number = |at: usize| {
                let bytes: [u8; 4] = std::array::from_fn(|i| entry[at + i]);
                u32::from_le_bytes(bytes)
            };
            let key = u64::from(number(0)) | u64::from(number(4)) << 32;
            let (start, units) = (number(8), number(12));
            let is_possible = units > 0
                && start
                    .checked_add(units)
                    .is_some_and(|end| end <= self.units)
                && self.get(key).is_none();
            if is_possible {
                self.insert(key, CacheSpan { start, units });
            }
        }
    }

    /// Forgets all entries, and frees the memory.
    pub(crate) fn clear(&mut self) {
        *self = Index::new(self.units, self.entries_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model: what each unit holds.
    #[test]
    fn what_is_found_is_what_was_written_there_last() {
        let mut index = Index::new(64, 40);
        let mut units: Vec<Option<CacheKey>> = vec![None; 64];
        let mut random = 1_u64;
        for step in 0..5000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let len = (random >> 33) as u32 % 20 + 1;
            let key = match step % 7 {
                0 => step / 2,
                _ => step,
            };
            let start = index.make_space(len).unwrap();
            for unit in &mut units[start as usize..(start + len) as usize] {
                *unit = Some(key);
            }
            index.insert(key, CacheSpan { start, units: len });
            if step % 11 == 0 {
                let span = index.get(key).unwrap();
                assert!(index.remove(key, span.start));
                assert!(!index.remove(key, span.start));
            }
            let mut held = 0;
            for (key, span) in &index.spans {
                let range = span.start as usize..(span.start + span.units) as usize;
                assert!(
                    units[range].iter().all(|unit| *unit == Some(*key)),
                    "{step}"
                );
                held += u64::from(span.units);
            }
            assert_eq!(index.held(), held);
            assert!(index.order.len() <= 40 && index.spans.len() <= index.order.len());
        }
        assert!(index.get(4999).is_some() && index.get(4000).is_none());
    }

    #[test]
    fn an_index_goes_on_where_it_was_encoded() {
        let fill = |index: &mut Index, keys: std::ops::Range<u64>| {
            for key in keys {
                let units = key as u32 % 5 + 1;
                let start = index.make_space(units).unwrap();
                index.insert(key, CacheSpan { start, units });
            }
        };
        let mut index = Index::new(100, 50);
        fill(&mut index, 0..77);
        let mut again = Index::new(100, 50);
        again.decode(&index.encode(usize::MAX));
        for round in [77..78, 78..90, 90..140] {
            assert_eq!(again.spans, index.spans);
            assert_eq!((again.held, again.head), (index.held, index.head));
            fill(&mut index, round.clone());
            fill(&mut again, round);
        }
        // The newest entries fit, and forged ones do no harm.
        again.decode(&index.encode(HEAD + 3 * ENTRY + 15));
        assert_eq!(again.spans.len(), 3);
        assert!(again.get(139).is_some());
        for bytes in [
            vec![],
            vec![255; 7],
            vec![255; 8 + 16 * 3],
            vec![1; 8 + 16 * 2],
        ] {
            again.decode(&bytes);
            fill(&mut again, 0..200);
        }
    }

    #[test]
    fn no_more_entries_than_memory_is_set_aside_for() {
        let mut index = Index::new(1000, 3);
        for key in 0..10 {
            let start = index.make_space(1).unwrap();
            index.insert(key, CacheSpan { start, units: 1 });
        }
        assert_eq!(index.held(), 3);
        assert!(index.get(6).is_none() && index.get(7).is_some());
        index.clear();
        assert_eq!((index.held(), index.get(9)), (0, None));
        assert_eq!(index.make_space(1001), None);
    }
}
