//! Replay: decides which objects of a line count, and computes the state that they lead to.

use std::collections::BTreeMap;

use super::history::LineHistory;
use super::log_object::{LineEntry, LogKind, WriterId};

/// Continues a state with the objects after it.
///
/// An object counts only if every number from the first of its writer up to its `after` holds an object of the same writer.
/// So a write that was ordered after another one never counts without that one. Numbers up to the state count as held,
/// and so do numbers whose objects were deleted.
///
/// # Errors
/// The number of an object that belongs to another line or to another number, and the reason.
pub(crate) fn replay(
    mut history: LineHistory,
    device: [u8; 16],
    entries: &BTreeMap<u64, (LineEntry, u64)>,
) -> Result<LineHistory, (u64, &'static str)> {
    let start = history.last;
    for (number, (entry, _)) in entries {
        if entry.device != device {
            return Err((*number, "it belongs to another pool"));
        }
        if entry.number != *number {
            return Err((*number, "it is a copy of another object"));
        }
        if entry.kind == LogKind::Deletions {
            let ranges = entry
                .runs
                .iter()
                .map(|run| run.offset..run.offset.saturating_add(run.len));
            ranges.for_each(|range| history.deleted.insert(range));
        }
    }
    let mut held = HeldNumbers::new(start);
    for (number, (entry, size)) in entries {
        // An emptied object stays: its number may be in the window of a writer, or it had secrets.
        if entry.kind == LogKind::Emptied {
            history.windows.insert(*number..number + 1);
        }
        if *number <= start || history.deleted.contains(*number) {
            continue;
        }
        let until = held.until(entry, |n| {
            let is = entries.get(&n).map(|(is, _)| is.writer);
            is == Some(entry.writer) || history.deleted.contains(n)
        });
        match until >= entry.after {
            true => history.enter(entry, *size),
            // It holds its number, and nothing else.
            false => history.enter(&without_effect(entry), *size),
        }
    }
    let last = entries.keys().next_back();
    history.last = history.last.max(last.copied().unwrap_or(0));
    Ok(history)
}

/// The same object without runs.
fn without_effect(entry: &LineEntry) -> LineEntry {
    LineEntry {
        runs: Vec::new(),
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

    fn until(&mut self, entry: &LineEntry, is_held: impl Fn(u64) -> bool) -> u64 {
        let from = self.start.max(entry.first.saturating_sub(1));
        let until = self.writers.entry((entry.writer, entry.first));
        let until = until.or_insert(from);
        while *until < entry.after && is_held(*until + 1) {
            *until += 1;
        }
        *until
    }
}
