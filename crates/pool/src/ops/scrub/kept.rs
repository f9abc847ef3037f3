//! Scrub of the checkpoint: visits the records that only that state has.

use super::{Examined, Step, Task};
use crate::error::{Error, Result};
use crate::format::pointer::Place;
use crate::format::scrub_status::{Position, ScrubStatus};
use crate::ops::pool::Pool;

/// Positions in the datasets of the checkpoint have this added to the id.
const KEPT: u64 = 1 << 62;

/// Commits wait for one step, so it is short.
const STEP: u64 = 4 << 20;

impl Pool {
    /// Goes on with the checkpoint, after the current state. True at its end, or if there is none.
    pub(super) fn scrub_kept(&self, status: &mut ScrubStatus) -> Result<bool> {
        // What is repaired stays where it is until the checkpoint is discarded.
        let committing = self.engine.lock_commits();
        self.engine.check_lease()?;
        let kept = match self.kept_state(&committing) {
            Ok(Some(kept)) => kept,
            Ok(None) => return Ok(true),
            Err(error) if error.is_loss() => {
                let mut step = Step {
                    pool: self,
                    task: Task::Repair,
                    left: 0,
                    in_use: Some(&self.engine.space),
                    status,
                };
                step.report_checkpoint(&error);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let position = status.position;
        status.position.dataset = position.dataset.saturating_sub(KEPT);
        if position.dataset < KEPT {
            status.position = Position::default();
        }
        let mut step = Step {
            pool: &kept,
            task: Task::Repair,
            left: STEP,
            in_use: Some(&self.engine.space),
            status,
        };
        if step.status.position == Position::default() {
            step.pool_arrays()?;
            step.go_to(1, 0, 0);
        }
        let done = step.datasets()?;
        status.position.dataset |= KEPT;
        Ok(done)
    }
}

impl Step<'_> {
    /// Counts a checkpoint that cannot be read. Then it is unknown which of its records are lost.
    pub(crate) fn report_checkpoint(&mut self, error: &Error) {
        tracing::error!(%error, "the checkpoint cannot be read, and not be gone back to");
        self.forget_missed();
        self.report(Examined::of_loss(error), 0, None, (0, 0));
    }

    /// Whether the current state has a place too, which is done already.
    pub(super) fn is_passed_over(&self, place: &Place) -> bool {
        let Some(space) = self.in_use else {
            return false;
        };
        let Ok(extents) = self.pool.engine.disk.extents(place) else {
            return false;
        };
        let remap = &self.pool.engine.disk.remap;
        let mut extents = extents.into_iter();
        extents.all(|extent| {
            let places = remap.all_places(extent);
            places.is_ok_and(|all| {
                all.iter()
                    .all(|extent| space.is_on_disk(extent).unwrap_or(false))
            })
        })
    }
}
