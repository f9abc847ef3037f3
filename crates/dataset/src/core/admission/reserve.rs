//! Reserves space for writes. If there is none, frees the space of deleted data first.

use std::time::{Duration, Instant};

use pool::{ReserveFor, SpaceReservation};

use super::quota::OPERATION_CHARGE;
use crate::core::dataset::{Dataset, PAGE_SPACE};
use crate::core::settings::Settings;
use crate::error::Result;

/// An operation changes about this many pages.
const OPERATION_SPACE: u64 = 4 * PAGE_SPACE;

/// A delete that finds too little space fails once commits have changed nothing for this time. Threads with
/// reservations use these in this time.
///
/// The delete does not wait for the end of other reservations. One of them may belong to an operation that waits for
/// this delete, for the lock of an inode or for a commit, and the wait would never end. Each round commits, so the
/// thread does not spin. If the time is too short on a busy machine, the delete fails with `ENOSPC`, and another try
/// works; nothing is lost.
const STANDSTILL: Duration = Duration::from_millis(20);

impl Dataset {
    /// Keeps the part of an operation's space that its dirty pages need.
    pub(crate) fn keep_reserved(&self, mut reserved: SpaceReservation, dirtied: usize) {
        if dirtied > 0 {
            let mut reservations = self.page_reservations.lock();
            // The commit also writes a page of the history of seals.
            let pages = dirtied + usize::from(reservations.is_empty());
            reserved.shrink(pages as u64 * PAGE_SPACE);
            reservations.push(reserved);
        }
    }

    /// Reserves space for an operation on the tree.
    pub(crate) fn reserve_operation(
        &self,
        settings: &Settings,
        why: ReserveFor,
    ) -> Result<SpaceReservation> {
        if why == ReserveFor::Writing {
            self.charge(settings, OPERATION_CHARGE)?;
        }
        self.reserve_or_free(settings, self.operation_space(), why)
    }

    fn operation_space(&self) -> u64 {
        // The accounts of users and groups are on pages of their own, if they are counted.
        OPERATION_SPACE + u64::from(self.tree.counts_owners()) * PAGE_SPACE
    }

    /// Reserves space for an operation on the tree that can be left out. `None` if this needs a wait, or needs other
    /// data to be freed first.
    pub(crate) fn reserve_without_waiting(
        &self,
        settings: &Settings,
    ) -> Result<Option<SpaceReservation>> {
        if self.has_to_wait() || settings.limited && !self.try_charge(OPERATION_CHARGE)? {
            return Ok(None);
        }
        let space = self.reserve_in_pool(settings, self.operation_space(), ReserveFor::Writing);
        Ok(space.ok())
    }

    /// Reserves space for contents, if quotas allow it.
    pub(crate) fn reserve(
        &self,
        settings: &Settings,
        bytes: u64,
        why: ReserveFor,
    ) -> Result<SpaceReservation> {
        if why == ReserveFor::Writing {
            self.charge(settings, bytes)?;
        }
        self.reserve_or_free(settings, bytes, why)
    }

    /// Reserves space. If there is none, frees the space of deleted data first.
    fn reserve_or_free(
        &self,
        settings: &Settings,
        bytes: u64,
        why: ReserveFor,
    ) -> Result<SpaceReservation> {
        let reserve = || self.reserve_in_pool(settings, bytes, why);
        if let Ok(reserved) = reserve() {
            return Ok(reserved);
        }
        if why != ReserveFor::Writing {
            return self.reserve_in_turn(bytes);
        }
        let free = || {
            // Files are more important than the log: without it, `fsync` commits.
            self.pool.give_up_logs()?;
            self.pool.commit()?;
            self.free_dead_slots()?;
            self.free_to_the_end()
        };
        let found = self.after_freeing(free, || Ok(reserve().ok()))?;
        found.map_or_else(reserve, Ok)
    }

    /// Reserves space for a delete that finds too little. Only one thread does this at a time, after commits that
    /// release unused reservations of other threads.
    fn reserve_in_turn(&self, bytes: u64) -> Result<SpaceReservation> {
        let turn = self.pool.turn_to_free();
        let mut seen = None;
        let mut last_change = Instant::now();
        loop {
            if let Ok(reserved) = turn.reserve(bytes) {
                return Ok(reserved);
            }
            let free = turn.free();
            if seen.replace(free) != Some(free) {
                last_change = Instant::now();
            } else if last_change.elapsed() > STANDSTILL {
                return Ok(turn.reserve(bytes)?);
            }
            self.pool.give_up_logs()?;
            // Without `after_freeing`: a delete must not wait for itself.
            self.free_to_the_end()?;
        }
    }

    /// Commits until nothing waits to be freed.
    pub(crate) fn free_to_the_end(&self) -> Result<()> {
        self.pool.commit()?;
        while self.pool.space().freeing > 0 {
            self.pool.commit()?;
        }
        Ok(())
    }

    /// Frees all space that can be freed, then calls `attempt`. If this is not enough, repeats both when a file that
    /// was just unlinked is released.
    pub(crate) fn after_freeing<T>(
        &self,
        free: impl Fn() -> Result<()>,
        attempt: impl Fn() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let gone = self.unlinked.gone();
            free()?;
            let done = attempt()?;
            if done.is_some() || !self.unlinked.wait(gone, || self.has_orphans())? {
                return Ok(done);
            }
        }
    }
}
