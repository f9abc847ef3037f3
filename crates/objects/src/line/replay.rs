//! Replay: decides which objects of a line count, and computes the state that they lead to.

use std::collections::BTreeMap;

use super::history::{DOOMED_MAX, LineHistory};
use super::log_object::{BatchPart, LineEntry, LogKind, Run, RunKind, WriterId};
use super::ranges::NumberSet;

/// Log objects by their numbers, each with its size.
pub(crate) type EntryMap = BTreeMap<u64, (LineEntry, u64)>;

/// Continues a state with the objects after it.
///
/// An object counts only if every number from the first of its writer up to its `after` holds an object of the same writer.
/// So a write that was ordered after another one never counts without that one. Numbers up to the state count as held,
/// and so do numbers whose objects were deleted. A member of a batch counts only if an end of a batch of its writer comes after
/// it and counts. So a batch counts as a whole.
///
/// # Errors
/// The number of an object that belongs to another line or to another number, or of one that was there and is missing, and the
/// reason.
pub(crate) fn replay(
    mut history: LineHistory,
    device: [u8; 16],
    entries: &EntryMap,
    window: u64,
) -> Result<LineHistory, (u64, &'static str)> {
    let start = history.last;
    for (number, (entry, _)) in entries {
        if entry.device != device {
            return Err((*number, "it belongs to another pool"));
        }
        if entry.number != *number {
            return Err((*number, "it is a copy of another object"));
        }
        let is_younger = |run: &Run| run.origin > *number;
        if entry.kind == LogKind::Data && entry.runs.iter().any(is_younger) {
            return Err((*number, "a run of it is younger than itself"));
        }
        if entry.kind == LogKind::Deletions {
            let ranges = entry
                .runs
                .iter()
                .map(|run| run.offset..run.offset.saturating_add(run.len));
            for range in ranges {
                if range.end > *number {
                    return Err((*number, "it lists objects that are younger than itself"));
                }
                history.deleted.insert(range);
            }
            let doomed = entry.runs.iter().filter(|run| run.kind == RunKind::Discard);
            let count = doomed.fold(0_u64, |sum, run| sum.saturating_add(run.len));
            if count > DOOMED_MAX {
                return Err((*number, TOO_MANY));
            }
        }
    }
    let mut held = HeldNumbers::new(start);
    let ends = ends_of_writers(entries);
    let batches = ends_of_batches(entries, &history);
    for (number, (entry, size)) in entries {
        // An emptied object stays: its number may be in the window of a writer, or it had secrets.
        if entry.kind == LogKind::Emptied {
            history.windows.insert(*number..number + 1);
        }
        if *number <= start || history.deleted.contains(*number) {
            continue;
        }
        if entry.batch == BatchPart::Member {
            let end = batches.get(&(entry.writer, entry.first));
            match end.is_some_and(|end| number < end) {
                true => history.enter(entry, *size),
                false => history.enter(&without_effect(entry), *size),
            }
            continue;
        }
        let until = held.until(entry, entries, &history.deleted);
        // A forged object may say that its writer began at the last number there is.
        let gap = until.saturating_add(1);
        match until >= entry.after {
            true => history.enter(entry, *size),
            false if entry.kind == LogKind::Data && !entries.contains_key(&gap) => {
                let end = ends.get(&(entry.writer, entry.first));
                if end.is_some_and(|end| end.was_answered(gap, *number, window)) {
                    return Err((gap, MISSING));
                }
                history.enter(&without_effect(entry), *size);
            }
            // It holds its number, and nothing else.
            false => history.enter(&without_effect(entry), *size),
        }
    }
    let last = entries.keys().next_back();
    history.last = history.last.max(last.copied().unwrap_or(0));
    Ok(history)
}

/// The reason for a list of deletions that would keep a writer busy for ever.
pub(super) const TOO_MANY: &str = "it lists more objects to remove than any writer does";

/// The reason for a number that held an object once.
pub(crate) const MISSING: &str = "it is missing";

/// The last numbers of a writer.
#[derive(Default)]
struct WriterEnd {
    last: u64,
    /// The number of the object that ends the writer, 0 without one.
    release: u64,
}

impl WriterEnd {
    /// Returns whether the store had answered for a number, which has no object now, and for a later one. A writer takes no
    /// number beyond its window, and ends when all its writes are durable.
    fn was_answered(&self, number: u64, later: u64, window: u64) -> bool {
        self.last >= number.saturating_add(window) || self.release > later
    }
}

fn ends_of_writers(entries: &EntryMap) -> BTreeMap<(WriterId, u64), WriterEnd> {
    let mut ends: BTreeMap<_, WriterEnd> = BTreeMap::new();
    for (number, (entry, _)) in entries {
        let end = ends.entry((entry.writer, entry.first)).or_default();
        end.last = *number;
        if entry.kind == LogKind::Release {
            end.release = *number;
        }
    }
    ends
}

/// For each writer, the number of the last end of a batch that counts. Then the ends before it count too.
fn ends_of_batches(entries: &EntryMap, history: &LineHistory) -> BTreeMap<(WriterId, u64), u64> {
    let mut held = HeldNumbers::new(history.last);
    let mut ends = BTreeMap::new();
    for (number, (entry, _)) in entries {
        if entry.batch == BatchPart::End
            && held.until(entry, entries, &history.deleted) >= entry.after
        {
            ends.insert((entry.writer, entry.first), *number);
        }
    }
    ends
}

/// The same object without runs.
fn without_effect(entry: &LineEntry) -> LineEntry {
    LineEntry {
        runs: Vec::new(),
        batch: BatchPart::None,
        kind: match entry.kind {
            kind @ (LogKind::Take | LogKind::Fence) => kind,
            _ => LogKind::Emptied,
        },
        ..entry.clone()
    }
}

/// For each writer, the last number up to which all numbers from its first are its own.
struct HeldNumbers {
    start: u64,
    writers: BTreeMap<(WriterId, u64), u64>,
}

impl HeldNumbers {
    fn new(start: u64) -> HeldNumbers {
        HeldNumbers {
            start,
            writers: BTreeMap::new(),
        }
    }

    /// The last number up to which all from the first of a writer hold its objects, or held deleted ones. It is followed up
    /// to the number that an object of that writer needs.
    fn until(&mut self, of: &LineEntry, entries: &EntryMap, deleted: &NumberSet) -> u64 {
        let from = self.start.max(of.first.saturating_sub(1));
        let until = self.writers.entry((of.writer, of.first));
        let until = until.or_insert(from);
        while *until < of.after {
            let next = deleted.first_missing(*until + 1);
            *until = next - 1;
            let is_own = entries
                .get(&next)
                .is_some_and(|(is, _)| is.writer == of.writer);
            if !is_own {
                break;
            }
            *until = next;
        }
        *until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 64;

    /// Objects 1 to `last` of one writer, each of which counts after the one before it.
    fn line(last: u64) -> BTreeMap<u64, (LineEntry, u64)> {
        let entry = |number| LineEntry {
            kind: LogKind::Data,
            is_header: false,
            batch: BatchPart::None,
            device: [1; 16],
            writer: [2; 16],
            number,
            first: 1,
            after: number - 1,
            runs: Vec::new(),
            data_len: 0,
            data_sum: 0,
        };
        (1..=last).map(|n| (n, (entry(n), 100))).collect()
    }

    fn outcome(entries: &EntryMap) -> Result<u64, (u64, &'static str)> {
        let replayed = replay(LineHistory::default(), [1; 16], entries, WINDOW);
        replayed.map(|history| history.last)
    }

    #[test]
    fn an_object_that_was_there_is_missed_and_one_that_may_not_have_been_is_not() {
        let without = |last, number| {
            let mut entries = line(last);
            entries.remove(&number);
            entries
        };
        // The writer had no answer for number 3 when it took number 66.
        assert_eq!(outcome(&without(66, 3)), Ok(66));
        assert_eq!(outcome(&without(67, 3)), Err((3, MISSING)));
        let mut ended = without(11, 3);
        assert_eq!(outcome(&ended), Ok(11));
        ended.get_mut(&11).unwrap().0.kind = LogKind::Release;
        assert_eq!(outcome(&ended), Err((3, MISSING)));
        // A copy counts alone, so no order is broken by its absence.
        ended.values_mut().for_each(|(entry, _)| entry.after = 0);
        assert_eq!(outcome(&ended), Ok(11));
        // What its writer has deleted is not missed.
        let mut deleted = without(67, 3);
        let run = Run {
            kind: RunKind::Discard,
            offset: 3,
            len: 1,
            origin: 0,
        };
        let (list, _) = deleted.get_mut(&67).unwrap();
        (list.kind, list.runs) = (LogKind::Deletions, vec![run]);
        assert_eq!(outcome(&deleted), Ok(67));
    }

    /// An object that lists deletions up to a number.
    fn deletions(number: u64, kind: RunKind, until: u64) -> (LineEntry, u64) {
        let (mut entry, size) = line(1).remove(&1).unwrap();
        (entry.kind, entry.number) = (LogKind::Deletions, number);
        (entry.first, entry.after) = (1, number - 1);
        entry.runs = vec![Run {
            kind,
            offset: 1,
            len: until - 1,
            origin: 0,
        }];
        (entry, size)
    }

    /// Without the jump over what was deleted, this test does not end.
    #[test]
    fn a_forged_list_of_deletions_keeps_nobody_busy() {
        let last = 1 << 62;
        let entries = BTreeMap::from([(last, deletions(last, RunKind::Zeros, last))]);
        assert_eq!(outcome(&entries), Ok(last));
        let doomed = |count| {
            let list = deletions(last, RunKind::Discard, 1 + count);
            outcome(&BTreeMap::from([(last, list)]))
        };
        assert_eq!(doomed(DOOMED_MAX), Ok(last));
        assert_eq!(doomed(DOOMED_MAX + 1), Err((last, TOO_MANY)));
    }

    #[test]
    fn a_run_that_is_younger_than_its_object_is_refused() {
        let mut entries = line(3);
        let zeros = |origin| Run {
            kind: RunKind::Zeros,
            offset: 0,
            len: 4096,
            origin,
        };
        entries.get_mut(&2).unwrap().0.runs = vec![zeros(1), zeros(2)];
        assert_eq!(outcome(&entries), Ok(3));
        // Without this no later write to the range would count.
        entries.get_mut(&2).unwrap().0.runs.push(zeros(3));
        let refused = outcome(&entries);
        assert_eq!(refused, Err((2, "a run of it is younger than itself")));
    }
}
