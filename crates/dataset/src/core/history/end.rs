//! The end of the history of an open dataset, where commits add seals.

use pool::PastSeal;

use super::page::{SEALS_MAX, SealPage};
use super::pages::SealPages;
use crate::error::Result;

/// The newest page of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct HistoryEnd {
    number: u64,
    page: SealPage,
}

/// The history of an open dataset.
#[derive(Debug, Default)]
pub(crate) struct SealHistory {
    /// The end after the last commit.
    end: HistoryEnd,
    /// The end after the commit that is under way.
    next: Option<HistoryEnd>,
}

impl SealHistory {
    /// Reads the end of a history. If the newest page is damaged, a new history begins behind it.
    ///
    /// # Errors
    /// A node of the array cannot be read.
    pub(crate) fn open(pages: &SealPages<'_>) -> Result<SealHistory> {
        let end = match pages.count()? {
            0 => HistoryEnd::default(),
            count => match pages.page(count - 1) {
                Some(page) => HistoryEnd {
                    number: count - 1,
                    page,
                },
                None => {
                    let dataset = pages.name;
                    tracing::warn!(
                        dataset,
                        "the history of its seals is damaged; anchors of before now cannot be proved any more"
                    );
                    HistoryEnd::begin(count)
                }
            },
        };
        Ok(SealHistory { end, next: None })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end == HistoryEnd::default()
    }

    /// Adds seals, oldest first. Returns the pages that change, with their numbers. A commit that is tried again starts
    /// from the last durable state.
    pub(crate) fn append(&mut self, past: &[PastSeal]) -> Vec<(u64, SealPage)> {
        let mut end = self.end.clone();
        let mut full = Vec::new();
        for seal in past {
            end.append(seal, &mut full);
        }
        self.next = Some(end.clone());
        if !end.page.seals.is_empty() {
            full.push((end.number, end.page));
        }
        full
    }

    /// The commit is durable.
    pub(crate) fn synced(&mut self) {
        if let Some(next) = self.next.take() {
            self.end = next;
        }
    }
}

impl HistoryEnd {
    /// A history that begins with a page that does not exist yet.
    fn begin(number: u64) -> HistoryEnd {
        HistoryEnd {
            number,
            page: SealPage {
                base: number,
                seals: Vec::new(),
            },
        }
    }

    fn append(&mut self, seal: &PastSeal, full: &mut Vec<(u64, SealPage)>) {
        let last = self.page.seals.last();
        // The metadata of a dataset that was received in the clear has the history of the sender.
        let is_foreign = last.is_some_and(|last| last.sequence >= seal.sequence);
        if seal.is_gap() || is_foreign {
            let next = match self.page.seals.is_empty() {
                true => self.number,
                false => self.number + 1,
            };
            *self = HistoryEnd::begin(next);
        } else if self.page.seals.len() == SEALS_MAX {
            full.push((self.number, self.page.clone()));
            self.number += 1;
            self.page.seals.clear();
        }
        if !seal.is_gap() {
            self.page.seals.push(*seal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(sequence: u64) -> PastSeal {
        PastSeal::new(sequence, &[sequence as u8; 32])
    }

    #[test]
    fn pages_fill_and_a_try_again_adds_nothing() {
        let mut history = SealHistory::default();
        let mut pages = std::collections::BTreeMap::new();
        for sequence in 1..=3 * SEALS_MAX as u64 {
            let first = history.append(&[seal(sequence)]);
            let again = history.append(&[seal(sequence)]);
            assert_eq!(first, again);
            pages.extend(again);
            history.synced();
        }
        assert_eq!(pages.len(), 3);
        assert!(pages.values().all(|page| page.base == 0));
        let seals: Vec<u64> = pages
            .values()
            .flat_map(|page| page.seals.iter().map(|seal| seal.sequence))
            .collect();
        assert!(seals.into_iter().eq(1..=3 * SEALS_MAX as u64));
    }

    #[test]
    fn a_gap_and_a_history_of_another_dataset_begin_anew() {
        let mut history = SealHistory::default();
        history.append(&[seal(10), seal(11)]);
        history.synced();
        let pages = history.append(&[seal(3), seal(4)]);
        let [(1, page)] = &pages[..] else {
            panic!("{pages:?}");
        };
        assert_eq!((page.base, page.seals.len()), (1, 2));
        history.synced();
        let gap = PastSeal::from_bytes(&[0; PastSeal::BYTES]);
        let pages = history.append(&[gap, seal(9)]);
        assert_eq!((pages[0].0, pages[0].1.base), (2, 2));
        assert_eq!(pages[0].1.seals, [seal(9)]);
    }
}
