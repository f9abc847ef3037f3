//! Slots that several files share, because one file was copied from the other by reference.
//!
//! An extent with the mark *shared* may share some of its slots. The tree has the number of owners for runs of shared
//! slots. A slot that is in no run has one owner. If only a part of a run changes, the run is split.

use std::collections::BTreeMap;

use crate::layout::{KeyKind, RecordExtent, SharedRun, dataset_number, shared_key};
use crate::tree::{TreeStep, TreeView, TreeWriter};

/// The shared runs around some slots, during an operation.
#[derive(Default)]
pub(crate) struct Runs {
    before: BTreeMap<u64, SharedRun>,
    now: BTreeMap<u64, SharedRun>,
}

impl Runs {
    /// Reads the runs that overlap a range of slots and were not read yet.
    pub(crate) fn load(&mut self, view: &dyn TreeView, slot: u64, count: u64) -> TreeStep<()> {
        if let Some((key, value)) = view.floor(&shared_key(slot))?
            && let Some(first) = dataset_number(key, KeyKind::Shared)
        {
            let run = SharedRun::decode(first, value).ok_or(vfs::Error::Io)?;
            if run.end() > slot {
                self.take(run);
            }
        }
        let mut bad = false;
        view.scan(&shared_key(slot), &mut |key, value| {
            let first = dataset_number(key, KeyKind::Shared).filter(|first| *first < slot + count);
            let run = first.map(|first| SharedRun::decode(first, value));
            bad |= run == Some(None);
            match run.flatten() {
                Some(run) => self.take(run),
                None => return false,
            }
            true
        })?;
        if bad {
            Err(vfs::Error::Io.into())
        } else {
            Ok(())
        }
    }

    fn take(&mut self, run: SharedRun) {
        // A run that was read before may have changed since: the first state of it counts.
        if self.before.insert(run.slot, run).is_none() {
            self.now.insert(run.slot, run);
        }
    }

    pub(crate) fn owners(&self, slot: u64) -> u64 {
        match self.now.range(..=slot).next_back() {
            Some((_, run)) if slot < run.end() => run.owners,
            _ => 1,
        }
    }

    /// Cuts runs so that one begins at `slot`, if one covers it.
    fn cut_at(&mut self, slot: u64) {
        // Runs do not overlap, so that only the last one before the slot can cover it.
        let found = self.now.range(..slot).next_back().map(|(_, run)| *run);
        if let Some(run) = found.filter(|run| slot < run.end()) {
            self.set(SharedRun {
                count: slot - run.slot,
                ..run
            });
            self.set(SharedRun {
                slot,
                count: run.end() - slot,
                ..run
            });
        }
    }

    fn set(&mut self, run: SharedRun) {
        debug_assert!(run.count > 0, "a run has slots");
        self.now.insert(run.slot, run);
    }

    /// Adds an owner to every slot of a range.
    pub(crate) fn acquire(&mut self, slot: u64, count: u64) {
        let end = slot + count;
        // Then each run is in the range as a whole, or outside of it.
        self.cut_at(slot);
        self.cut_at(end);
        let mut at = slot;
        while at < end {
            match self.now.range(at..end).next().map(|(_, run)| *run) {
                Some(run) if run.slot == at => {
                    self.set(SharedRun {
                        owners: run.owners + 1,
                        ..run
                    });
                    at = run.end();
                }
                next => {
                    let until = next.map_or(end, |run| run.slot);
                    self.set(SharedRun {
                        slot: at,
                        count: until - at,
                        owners: 2,
                    });
                    at = until;
                }
            }
        }
    }

    /// Removes an owner from every slot of a range, and returns the runs without owners.
    pub(crate) fn release(&mut self, slot: u64, count: u64) -> Vec<(u64, u64)> {
        let end = slot + count;
        self.cut_at(slot);
        self.cut_at(end);
        let mut free = Vec::new();
        let mut at = slot;
        while at < end {
            match self.now.range(at..end).next().map(|(_, run)| *run) {
                Some(run) if run.slot == at => {
                    if run.owners > 2 {
                        self.set(SharedRun {
                            owners: run.owners - 1,
                            ..run
                        });
                    } else {
                        // One owner is left. That needs no entry.
                        self.now.remove(&run.slot);
                    }
                    at = run.end();
                }
                next => {
                    let until = next.map_or(end, |run| run.slot);
                    // No run has these slots, so that this was their only owner.
                    free.push((at, until - at));
                    at = until;
                }
            }
        }
        free
    }

    /// Writes the changed runs.
    pub(crate) fn store(self, w: &mut TreeWriter<'_>) {
        for slot in self
            .before
            .keys()
            .filter(|slot| !self.now.contains_key(slot))
        {
            w.delete(shared_key(*slot));
        }
        for (slot, run) in &self.now {
            if self.before.get(slot) != Some(run) {
                w.put(shared_key(*slot), run.encode());
            }
        }
    }
}

/// Releases a part of a file's slots, and lists the slots without another owner for emptying. The caller stores `runs`
/// after the last part.
pub(crate) fn let_go(w: &mut TreeWriter<'_>, runs: &mut Runs, part: &RecordExtent) -> TreeStep<()> {
    if !part.shared {
        crate::core::io::slots::extents::bury(w, part.slot, part.count);
        return Ok(());
    }
    runs.load(w, part.slot, part.count)?;
    for (slot, count) in runs.release(part.slot, part.count) {
        crate::core::io::slots::extents::bury(w, slot, count);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_counted_slot_by_slot() {
        let mut runs = Runs::default();
        let mut model = [1u64; 64];
        let mut dice = 12345u64;
        let mut roll = |bound: u64| {
            dice = dice
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (dice >> 33) % bound
        };
        for _ in 0..3000 {
            let slot = roll(64);
            let count = 1 + roll(64 - slot);
            let range = slot as usize..(slot + count) as usize;
            if roll(2) == 0 && model[range.clone()].iter().all(|owners| *owners < 50) {
                runs.acquire(slot, count);
                model[range].iter_mut().for_each(|owners| *owners += 1);
            } else {
                let freed = runs.release(slot, count);
                for (slot, owners) in (slot..).zip(&mut model[range]) {
                    let is_free = freed.iter().any(|(s, n)| (*s..s + n).contains(&slot));
                    assert_eq!(is_free, *owners == 1);
                    // Free slots get another owner, here at once.
                    *owners = (*owners - 1).max(1);
                }
            }
            for (slot, owners) in model.iter().enumerate() {
                assert_eq!(runs.owners(slot as u64), *owners, "slot {slot}");
            }
        }
    }
}
