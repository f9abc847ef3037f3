//! Jobs of the free queue that wait, because a device fails to read data for them. In memory only.

use std::collections::BTreeMap;

/// A waiting job is tried again after this many seconds.
const RETRY_SECS: u64 = 60;

/// The time, in seconds, that jobs may fail before a resilver or removal that needs an empty queue gives them up.
pub(crate) const PATIENCE_SECS: u64 = 600;

/// The jobs that wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeWaits {
    /// The time at which a job is tried again, by slot.
    till: BTreeMap<u64, u64>,
    /// The time of the first failure of a job, by slot.
    since: BTreeMap<u64, u64>,
    /// The oldest first failure of the jobs that ran in this step, and in the last one. Places that these jobs could
    /// not free are put into a new job, and the new job inherits this time.
    had_turn: [Option<u64>; 2],
    /// True if the next step gives up jobs that have failed for a long time. The space that they would free then stays
    /// allocated.
    pub(crate) give_up: bool,
}

impl FreeWaits {
    /// Makes a job wait.
    pub(crate) fn wait(&mut self, slot: u64, now: u64) {
        self.till.insert(slot, now + RETRY_SECS);
        self.since.entry(slot).or_insert(now);
    }

    /// Makes a new job wait. It has the places that could not be freed in this step or the last one.
    pub(crate) fn wait_again(&mut self, slot: u64, now: u64) {
        let since = self.had_turn.into_iter().flatten().min();
        self.since.insert(slot, since.unwrap_or(now));
        self.wait(slot, now);
    }

    /// Returns whether a job can go on.
    pub(crate) fn is_due(&self, slot: u64, now: u64) -> bool {
        self.gives_up(slot, now) || self.till.get(&slot).is_none_or(|till| *till <= now)
    }

    /// Returns whether a job is given up if it fails again.
    pub(crate) fn gives_up(&self, slot: u64, now: u64) -> bool {
        let since = self.since.get(&slot);
        self.give_up && since.is_some_and(|since| now >= since + PATIENCE_SECS)
    }

    /// Called when a job makes progress, or is done.
    pub(crate) fn end(&mut self, slot: u64) {
        self.till.remove(&slot);
        if let Some(since) = self.since.remove(&slot) {
            let oldest = self.had_turn[0].map_or(since, |oldest| oldest.min(since));
            self.had_turn[0] = Some(oldest);
        }
    }

    /// Called when a job was given up completely.
    pub(crate) fn end_given_up(&mut self, slot: u64) {
        self.till.remove(&slot);
        self.since.remove(&slot);
    }

    /// Called when all jobs had their turn in a step.
    pub(crate) fn settle(&mut self) {
        self.give_up = false;
        self.had_turn = [None, self.had_turn[0]];
    }

    /// Returns whether a waiting job has failed for so long that it will probably not go on soon.
    pub(crate) fn is_hopeless(&self, now: u64) -> bool {
        let mut since = self.since.values();
        since.any(|since| now >= since + PATIENCE_SECS)
    }
}
