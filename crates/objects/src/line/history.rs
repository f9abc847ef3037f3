//! The state that the objects of a line lead to. An import computes it, and a writer continues it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::extent_map::ExtentMap;
use super::log_object::{BatchPart, LineEntry, LogKind, Run, RunKind};
use super::ranges::NumberSet;

/// The most objects that wait for their removal. Without a limit a forged list would keep a writer busy for ever.
pub(crate) const DOOMED_MAX: u64 = 1 << 20;

/// An object that is on the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectRecord {
    /// The size in bytes.
    pub(crate) size: u64,
    /// The bytes that the map has of it.
    pub(crate) live: u64,
    /// The bytes that read as zeros because of it.
    pub(crate) zeros: u64,
    /// For an object of a header: the ranges that it ever held.
    pub(crate) held: NumberSet,
    /// True for objects that stay though the map needs nothing of them: TAKE objects, fences, and the newest list of
    /// deletions.
    pub(crate) is_mark: bool,
    /// The part in a batch.
    pub(crate) batch: BatchPart,
}

/// The state that a line leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineHistory {
    /// The map.
    pub(crate) map: ExtentMap,
    /// The objects on the store.
    pub(crate) objects: BTreeMap<u64, ObjectRecord>,
    /// The numbers that were in the window of a writer when the line was taken from it, and those of emptied objects. These
    /// objects are emptied, never deleted: a writer that wakes up later may try to create one.
    pub(crate) windows: NumberSet,
    /// The numbers of objects that were deleted or emptied.
    pub(crate) deleted: NumberSet,
    /// The deleted numbers whose objects the store perhaps has still.
    pub(crate) doomed: NumberSet,
    /// The number of the newest list of deletions, 0 if there is none.
    pub(crate) deletions: u64,
    /// The last number in use, 0 if there is none.
    pub(crate) last: u64,
    /// True if the last object is a RELEASE: its writer has ended.
    pub(crate) is_released: bool,
}

impl LineHistory {
    /// Enters an object that counts.
    pub(crate) fn enter(&mut self, entry: &LineEntry, size: u64) {
        let number = entry.number;
        self.last = self.last.max(number);
        self.is_released = entry.kind == LogKind::Release;
        self.objects.insert(
            number,
            ObjectRecord {
                size,
                is_mark: matches!(
                    entry.kind,
                    LogKind::Take | LogKind::Fence | LogKind::Deletions
                ),
                batch: entry.batch,
                ..ObjectRecord::default()
            },
        );
        match entry.kind {
            LogKind::Data => {
                let mut at = 0;
                for run in &entry.runs {
                    self.enter_run(number, entry.is_header, run, at);
                    if run.kind == RunKind::Bytes {
                        at += run.len as u32;
                    }
                }
            }
            LogKind::Take => self.windows.insert(number..entry.first.max(number + 1)),
            LogKind::Deletions => {
                if let Some(before) = self.objects.get_mut(&self.deletions) {
                    before.is_mark = false;
                }
                self.deletions = number;
                self.doomed = NumberSet::default();
                for run in &entry.runs {
                    let range = run.offset..run.offset.saturating_add(run.len);
                    if run.kind == RunKind::Discard {
                        self.doomed.insert(range.clone());
                    }
                    self.forget(range);
                }
            }
            LogKind::Fence | LogKind::Release | LogKind::Emptied => {}
        }
    }

    /// Enters a run of an object. Its bytes begin at `at`.
    pub(crate) fn enter_run(&mut self, number: u64, is_header: bool, run: &Run, at: u32) {
        let range = run.offset..run.offset.saturating_add(run.len);
        let source = match run.kind {
            RunKind::Bytes => (number, Some(at)),
            // What was discarded stays in the map, as zeros. Without that, older bytes would come back: an object that is
            // needed for other ranges has them still.
            RunKind::Zeros | RunKind::Discard => (number, None),
        };
        let objects = &mut self.objects;
        let entered = self
            .map
            .enter(range.clone(), run.origin, source, |is, len| {
                if let Some(object) = objects.get_mut(&is.object) {
                    match is.at {
                        Some(_) => object.live -= len,
                        None => object.zeros -= len,
                    }
                }
            });
        let object = self.objects.entry(number).or_default();
        match run.kind {
            RunKind::Bytes => object.live += entered,
            RunKind::Zeros | RunKind::Discard => object.zeros += entered,
        }
        if is_header && run.kind == RunKind::Bytes {
            object.held.insert(range);
        }
    }

    /// Enters that the contents of objects were removed.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        let gone: Vec<u64> = self.objects.range(range.clone()).map(|(n, _)| *n).collect();
        gone.iter().for_each(|n| drop(self.objects.remove(n)));
        self.deleted.insert(range);
    }

    /// TAKE objects and fences before a number.
    pub(crate) fn marks(&self, before: u64) -> Vec<u64> {
        let marks = self.objects.range(..before).filter(|(_, is)| is.is_mark);
        let numbers = marks.map(|(number, _)| *number);
        numbers.filter(|number| *number != self.deletions).collect()
    }

    /// The objects that the map does not need, before a number. Marks are not among them, and neither is the end of a batch
    /// with an object that is needed: without it that object would not count.
    pub(crate) fn dead(&self, before: u64) -> Vec<u64> {
        let mut dead = Vec::new();
        let mut end = None;
        for (number, is) in self.objects.range(..before).rev() {
            if is.batch == BatchPart::End {
                dead.extend(end.take());
            }
            let is_dead = is.live == 0 && is.zeros == 0 && !is.is_mark;
            match is.batch {
                BatchPart::End if is_dead => end = Some(*number),
                BatchPart::Member if !is_dead => end = None,
                _ if is_dead => dead.push(*number),
                _ => {}
            }
        }
        dead.extend(end);
        dead.reverse();
        dead
    }
}
