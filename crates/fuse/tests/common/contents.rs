//! The contents of a file: pages where there is data, and holes.

use std::collections::BTreeMap;

use bytes::Bytes;

pub const PAGE: usize = 4096;

/// Pages by number; what is not there is a hole.
#[derive(Default)]
pub struct Contents(BTreeMap<u64, Vec<u8>>);

/// The pages that `start..end` touches: number, and which bytes of the page.
fn spans(start: u64, end: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let page = PAGE as u64;
    (start / page..end.div_ceil(page))
        .filter(move |_| start < end)
        .map(move |number| {
            let base = number * page;
            let from = start.max(base) - base;
            let to = end.min(base + page) - base;
            (number, from as usize..to as usize)
        })
}

impl Contents {
    pub fn pieces(&self, start: u64, end: u64) -> Vec<Bytes> {
        let piece = |(number, range): (u64, std::ops::Range<usize>)| match self.0.get(&number) {
            Some(page) => Bytes::copy_from_slice(&page[range]),
            None => Bytes::from(vec![0; range.len()]),
        };
        spans(start, end).map(piece).collect()
    }

    fn page(&mut self, number: u64) -> &mut Vec<u8> {
        self.0.entry(number).or_insert_with(|| vec![0; PAGE])
    }

    pub fn write(&mut self, offset: u64, mut data: &[u8]) {
        for (number, range) in spans(offset, offset + data.len() as u64) {
            let (now, rest) = data.split_at(range.len());
            self.page(number)[range].copy_from_slice(now);
            data = rest;
        }
    }

    pub fn allocate(&mut self, start: u64, end: u64) {
        for (number, _) in spans(start, end) {
            self.page(number);
        }
    }

    pub fn punch(&mut self, start: u64, end: u64) {
        for (number, range) in spans(start, end) {
            if range.len() == PAGE {
                self.0.remove(&number);
            } else if let Some(page) = self.0.get_mut(&number) {
                page[range].fill(0);
            }
        }
    }

    pub fn truncate(&mut self, size: u64) {
        let keep = size.div_ceil(PAGE as u64);
        self.0.split_off(&keep);
        self.punch(size, keep * PAGE as u64);
    }

    /// In units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.0.len() as u64 * (PAGE as u64 / 512)
    }

    /// The next data or hole at or after `offset`; none past the end.
    pub fn seek(&self, offset: u64, size: u64, data: bool) -> Option<u64> {
        let mut position = offset;
        while position < size {
            if self.0.contains_key(&(position / PAGE as u64)) == data {
                return Some(position);
            }
            position = (position / PAGE as u64 + 1) * PAGE as u64;
        }
        (offset < size && !data).then_some(size)
    }
}
