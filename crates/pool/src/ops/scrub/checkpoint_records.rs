//! Scrub of the checkpoint: visits the records that only that state has.

use super::pool_records::KeptAt;
use super::{RecordFinding, VisitStep, VisitTask};
use crate::error::{Error, Result};
use crate::format::jobs::scrub_status::{ScrubPosition, ScrubStatus};
use crate::format::records::pointer::RecordLocation;
use crate::ops::lifecycle::checkpoint::kept_state;
use crate::ops::scrub::Scrubber;

/// Positions in the datasets of the checkpoint have this added to the id.
pub(crate) const KEPT: u64 = 1 << 62;

/// Positions in the checkpoint's own records, which come after its datasets, have this added to the number of an array,
/// and [`KEPT`].
pub(crate) const KEPT_OWN: u64 = 1 << 61;

/// The bytes of one step in the checkpoint. It is short, because commits wait for it.
pub(crate) const KEPT_STEP: u64 = 4 << 20;

impl Scrubber<'_> {
    /// Goes on with the checkpoint, after the current state. True at its end, or if there is none.
    pub(super) fn step_kept(&self, left: u64, status: &mut ScrubStatus) -> Result<bool> {
        // What is repaired stays where it is until the checkpoint is discarded.
        let committing = self.engine.lock_commits();
        self.engine.check_lease()?;
        let kept = match kept_state(self.engine, &committing) {
            Ok(Some(kept)) => kept,
            Ok(None) => return Ok(true),
            Err(error) if error.is_loss() => {
                let mut step = VisitStep {
                    engine: self.engine,
                    task: VisitTask::Repair,
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
            status.position = ScrubPosition::default();
        }
        let mut step = VisitStep {
            engine: &kept,
            task: VisitTask::Repair,
            left: left.min(KEPT_STEP),
            in_use: Some(&self.engine.space),
            status,
        };
        let done = step.kept()?;
        status.position.dataset |= KEPT;
        Ok(done)
    }
}

impl VisitStep<'_> {
    /// Goes on with the datasets of the checkpoint, and then with its own records. True at the end.
    fn kept(&mut self) -> Result<bool> {
        let position = self.status.position;
        if position.dataset < KEPT_OWN {
            if self.datasets()? {
                self.status.within = 0;
                self.go_to(KEPT_OWN, 0, 0);
            }
            return Ok(false);
        }
        let owner = position.dataset - KEPT_OWN;
        let mut at = KeptAt::of_scrub(owner, position.slot, self.status.within);
        let done = self.kept_arrays(&mut at)?;
        let (slot, within) = at.to_scrub();
        self.status.within = within;
        self.go_to(KEPT_OWN + at.owner, 0, slot);
        Ok(done)
    }

    /// Counts a checkpoint that cannot be read. Then it is unknown which of its records are lost.
    pub(crate) fn report_checkpoint(&mut self, error: &Error) {
        tracing::error!(%error, "the checkpoint cannot be read, and not be gone back to");
        self.forget_missed();
        self.report(RecordFinding::of_loss(error), 0, None, (0, 0));
    }

    /// Returns whether the current state has a place too, which is done already.
    pub(super) fn is_passed_over(&self, place: &RecordLocation) -> bool {
        let Some(space) = self.in_use else {
            return false;
        };
        let Ok(extents) = self.engine.disk.extents(place) else {
            return false;
        };
        let remap = &self.engine.disk.remap;
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
