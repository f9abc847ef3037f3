//! Jobs of the free queue that wait, because a device fails to read what they need. In memory only.

use std::collections::BTreeMap;

/// A job that could not go on is tried again after so many seconds.
const RETRY_SECS: u64 = 60;

/// If a resilver or removal needs the queue to be empty, jobs are given up that have failed for so many seconds.
pub(crate) const PATIENCE_SECS: u64 = 600;

/// The jobs that wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeWaits {
    /// By slot: when the job is tried again.
    till: BTreeMap<u64, u64>,
    /// Since when there is always a job that waits.
    since: Option<u64>,
    /// Jobs that fail in the next step are given up: the space that they would free stays allocated.
    pub(crate) give_up: bool,
}

impl FreeWaits {
    /// Has a job wait.
    pub(crate) fn wait(&mut self, slot: u64, now: u64) {
        self.till.insert(slot, now + RETRY_SECS);
        self.since.get_or_insert(now);
    }

    /// Whether a job can go on.
    pub(crate) fn is_due(&self, slot: u64, now: u64) -> bool {
        self.give_up || self.till.get(&slot).is_none_or(|till| *till <= now)
    }

    /// A job went on, or is done.
    pub(crate) fn end(&mut self, slot: u64) {
        self.till.remove(&slot);
    }

    /// All jobs had their turn.
    pub(crate) fn settle(&mut self) {
        self.give_up = false;
        if self.till.is_empty() {
            self.since = None;
        }
    }

    /// Whether there is no hope any more that the jobs which wait can go on soon.
    pub(crate) fn is_hopeless(&self, now: u64) -> bool {
        self.since.is_some_and(|since| now >= since + PATIENCE_SECS)
    }
}
