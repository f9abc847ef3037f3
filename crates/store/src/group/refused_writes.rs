//! Writes that a device refused although no other member replaces it. They stay in memory until the device accepts
//! them.

use std::collections::BTreeMap;
use std::io::IoSlice;

use crate::Error;

/// Writes to a device that are still to be made. A later one takes the place of an earlier one.
#[derive(Default)]
pub(crate) struct Debts {
    /// Runs of bytes that do not overlap, by where they begin.
    runs: BTreeMap<u64, Vec<u8>>,
    /// The error of the first write. While there is one, the device is not written to.
    pub(crate) reason: Option<String>,
    /// True if that was a full file system.
    is_full: bool,
}

impl Debts {
    /// A write failed with this. Of several, the first one counts.
    pub(crate) fn begin(&mut self, error: &Error) {
        if self.reason.is_none() {
            self.reason = Some(error.to_string());
            self.is_full = matches!(error, Error::Device(error) if error.is_no_space());
        }
    }

    /// Returns the error of the device, which has this name.
    pub(crate) fn stall(&self, device: String) -> Option<Error> {
        Some(Error::Stalled {
            device,
            reason: self.reason.clone()?,
            is_full: self.is_full,
        })
    }

    pub(crate) fn add(&mut self, at: u64, pieces: &[IoSlice<'_>]) {
        let bytes: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| piece.iter().copied())
            .collect();
        let end = at + bytes.len() as u64;
        let before = self.runs.range(..at).next_back().map(|(start, _)| *start);
        let touched: Vec<u64> = before
            .into_iter()
            .chain(self.runs.range(at..end).map(|(start, _)| *start))
            .collect();
        for start in touched {
            let Some(mut run) = self.runs.remove(&start) else {
                continue;
            };
            let run_end = start + run.len() as u64;
            if run_end > end {
                self.runs
                    .insert(end, run.split_off((end.max(start) - start) as usize));
            }
            run.truncate(at.saturating_sub(start).min(run.len() as u64) as usize);
            if !run.is_empty() {
                self.runs.insert(start, run);
            }
        }
        self.runs.insert(at, bytes);
    }

    /// The runs, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.runs.iter().map(|(at, bytes)| (*at, &bytes[..]))
    }

    /// Puts what is owed of a range into `buf`. True if that is all of it.
    pub(crate) fn fill(&self, at: u64, buf: &mut [u8]) -> bool {
        let end = at + buf.len() as u64;
        let mut filled = 0;
        for (start, run) in self.runs.range(..end).rev() {
            let run_end = start + run.len() as u64;
            if run_end <= at {
                break;
            }
            let (from, to) = ((*start).max(at), run_end.min(end));
            let bytes = &run[(from - start) as usize..(to - start) as usize];
            buf[(from - at) as usize..(to - at) as usize].copy_from_slice(bytes);
            filled += bytes.len();
        }
        filled == buf.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_writes_win_and_nothing_else_changes() {
        let mut seed = 7u64;
        let mut below = |bound: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) % bound
        };
        for _ in 0..200 {
            let mut debts = Debts::default();
            let mut model = [None; 64];
            for n in 0..20u8 {
                let at = below(60);
                let len = 1 + below(64 - at);
                let bytes = vec![n; len as usize];
                debts.add(at, &[IoSlice::new(&bytes[..1]), IoSlice::new(&bytes[1..])]);
                model[at as usize..(at + len) as usize].fill(Some(n));
            }
            let mut runs = debts.runs().peekable();
            while let Some((at, run)) = runs.next() {
                let end = at + run.len() as u64;
                assert!(runs.peek().is_none_or(|(next, _)| *next >= end));
            }
            let mut buf = [0xff; 64];
            let is_whole = debts.fill(0, &mut buf);
            assert_eq!(is_whole, model.iter().all(Option::is_some));
            assert_eq!(buf, model.map(|byte| byte.unwrap_or(0xff)));
            let mut part = [0xff; 7];
            debts.fill(31, &mut part);
            assert_eq!(part, buf[31..38]);
        }
    }
}
