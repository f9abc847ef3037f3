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
    /// By slot: since when the job fails.
    since: BTreeMap<u64, u64>,
    /// Since when those fail that had their turn in this step, and in the last one. What could not be read of them is
    /// put into new jobs, which have failed for as long.
    had_turn: [Option<u64>; 2],
    /// Jobs that have failed for a long time are given up in the next step: the space that they would free stays
    /// allocated.
    pub(crate) give_up: bool,
}

impl FreeWaits {
    /// Has a job wait.
    pub(crate) fn wait(&mut self, slot: u64, now: u64) {
        self.till.insert(slot, now + RETRY_SECS);
        self.since.entry(slot).or_insert(now);
    }

    /// Has a new job wait, which is of places that could not be read in this step or the last one.
    pub(crate) fn wait_again(&mut self, slot: u64, now: u64) {
        let since = self.had_turn.into_iter().flatten().min();
        self.since.insert(slot, since.unwrap_or(now));
        self.wait(slot, now);
    }

    /// Whether a job can go on.
    pub(crate) fn is_due(&self, slot: u64, now: u64) -> bool {
        self.gives_up(slot, now) || self.till.get(&slot).is_none_or(|till| *till <= now)
    }

    /// Whether a job is given up if it fails once more.
    pub(crate) fn gives_up(&self, slot: u64, now: u64) -> bool {
        let since = self.since.get(&slot);
        self.give_up && since.is_some_and(|since| now >= since + PATIENCE_SECS)
    }

    /// A job went on, or is done.
    pub(crate) fn end(&mut self, slot: u64) {
        self.till.remove(&slot);
        if let Some(since) = self.since.remove(&slot) {
            let oldest = self.had_turn[0].map_or(since, |oldest| oldest.min(since));
            self.had_turn[0] = Some(oldest);
        }
    }

    /// A job that had failed for a long time was given up. Nothing of it is left.
    pub(crate) fn end_given_up(&mut self, slot: u64) {
        self.till.remove(&slot);
        self.since.remove(&slot);
    }

    /// All jobs had their turn.
    pub(crate) fn settle(&mut self) {
        self.give_up = false;
        self.had_turn = [None, self.had_turn[0]];
    }

    /// Whether there is no hope any more that some of the jobs which wait can go on soon.
    pub(crate) fn is_hopeless(&self, now: u64) -> bool {
        let mut since = self.since.values();
        since.any(|since| now >= since + PATIENCE_SECS)
    }
}
