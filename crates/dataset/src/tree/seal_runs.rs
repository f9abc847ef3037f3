//! The slots of `pages` that a dataset of files uses for the history of its seals: runs of slots, each twice as long as
//! the one before. So the slot of each page of the history follows from a few numbers in the header.

use crate::layout::ROOT_SLOT;

/// The slots of the first run.
const FIRST: u64 = 16;

/// The runs of slots. Page *n* of the history has the slot number *n* of all runs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SealRuns {
    /// The first slot of each run; 0 of a run that is not in use yet.
    pub(super) starts: [u64; SealRuns::MAX],
}

impl SealRuns {
    /// The number of runs: enough for 40,000,000,000 seals.
    pub(crate) const MAX: usize = 24;

    /// The slot of a page of the history, if there is one for it.
    pub(crate) fn slot(&self, page: u64) -> Option<u64> {
        let run = run_of(page);
        let start = *self.starts.get(run)?;
        (start != 0).then(|| start + page - (len(run) - FIRST))
    }

    /// Begins the run of a page at `next_page`, unless it has one. Returns the next free slot.
    pub(super) fn begin(&mut self, page: u64, next_page: u64) -> u64 {
        let run = run_of(page);
        match self.starts.get_mut(run) {
            Some(start) if *start == 0 => {
                *start = next_page;
                next_page + len(run)
            }
            _ => next_page,
        }
    }

    /// Returns whether all runs lie behind the root of the tree and before `next_page`.
    pub(super) fn are_below(&self, next_page: u64) -> bool {
        let used = (0..).zip(&self.starts).filter(|(_, start)| **start != 0);
        let mut ends =
            used.map(|(run, start)| (*start > ROOT_SLOT).then(|| start.checked_add(len(run)))?);
        ends.all(|end| end.is_some_and(|end| end <= next_page))
    }
}

fn run_of(page: u64) -> usize {
    (page / FIRST + 1).ilog2() as usize
}

fn len(run: usize) -> u64 {
    FIRST << run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_slot_of_its_own() {
        let mut runs = SealRuns::default();
        let mut next = 2;
        let mut seen = std::collections::BTreeSet::new();
        for page in 0..1000 {
            next = runs.begin(page, next);
            assert_eq!(runs.begin(page, next), next);
            assert!(runs.are_below(next));
            assert!(seen.insert(runs.slot(page).unwrap()), "{page}");
            // Pages of the tree come between.
            next += 3;
        }
        let end = seen.last().unwrap();
        assert!(!runs.are_below(*end));
        assert!(seen.iter().all(|slot| (2..next).contains(slot)));
        assert_eq!(runs.slot(u64::MAX), None);
    }
}
