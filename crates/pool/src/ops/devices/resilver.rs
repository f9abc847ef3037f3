//! Resilver: bringing members of groups up to date. Needs no key.
//!
//! It visits what was born since a member was here last: of each dataset its snapshots, the oldest
//! first, and then the dataset itself, so that what two of them share is visited once. When a
//! snapshot is destroyed, what the next one inherits from it comes later in this order; one that is
//! made while the dataset is visited takes its place. So nothing is passed over, whatever happens
//! meanwhile. Then come the pool's own records. New writes go to the member from the start. Last come the records that
//! only the checkpoint has, if a member was away when they were written.

use crate::engine::devices::device_changes::ReplacedMembers;
use crate::engine::gate::CommitEngine;
use crate::engine::history::log_own;
use crate::format::jobs::resilver_status::ResilverStatus;
use crate::format::jobs::scrub_status::ScrubPhase;
use crate::ops::info::SpaceInfo;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::jobs::resilver_status::{ResilverPosition, ResilverStage};
use crate::format::superblock::config::DeviceState;
use crate::ops::devices::freeing::{Frees, end_frees};
use crate::ops::devices::removal::RETRY_SECS;
use crate::ops::lifecycle::checkpoint::kept_state;
use crate::ops::pool::Pool;
use crate::ops::scrub::checkpoint_records::{KEPT, KEPT_OWN, KEPT_STEP};
use crate::ops::scrub::pool_records::KeptAt;
use crate::ops::scrub::{ResilverMembers, VisitStep, VisitTask};

/// The resilver of a pool, and the spares that take the place of failed devices.
#[derive(Clone, Copy)]
pub struct Resilverer<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

impl Pool {
    /// The resilver, and the use of spares.
    pub fn resilverer(&self) -> Resilverer<'_> {
        Resilverer {
            engine: &self.engine,
        }
    }
}

impl Resilverer<'_> {
    /// Returns how far the resilver is, or how the last one ended.
    pub fn status(&self) -> ResilverStatus {
        self.engine.state.visible().config.resilver.clone()
    }

    /// Copies about `budget` bytes more. False once nothing is left to do now. Where a log cannot be read it
    /// waits, and whatever else there is to do goes on.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::Inconsistent`] if a
    /// node cannot be read; [`Error::Store`] if a device fails. As [`Pool::commit`].
    pub fn step(&self, budget: u64) -> Result<bool> {
        let engine = self.engine;
        let status = self.status();
        if engine.read_only || !status.is_running() || engine.env.now() < status.waits_till {
            return Ok(false);
        }
        if !self.is_ready()? {
            std::thread::yield_now();
            return Ok(true);
        }
        let (mut status, members, round) = {
            let state = engine.state.read();
            let round = engine.in_flight.round();
            (state.config.resilver.clone(), resilvering(&state), round)
        };
        if engine.in_flight.resilver_round() != Some(round) {
            return Ok(true);
        }
        let mut position = status.position;
        let mut step = VisitStep {
            engine: self.engine,
            task: VisitTask::Fill(ResilverMembers::new(
                members.clone(),
                std::mem::take(&mut status.lacking),
            )),
            left: budget,
            in_use: None,
            status: &mut status.progress,
        };
        let outcome = step.resilver(&mut position, &members);
        if let VisitTask::Fill(filling) = step.task {
            status.lacking = filling.lacking;
        }
        status.position = position;
        status.waits = None;
        let why = match outcome {
            Ok(ResilverOutcome::Done) => return self.finish(status, round),
            Ok(ResilverOutcome::More) => None,
            Ok(ResilverOutcome::Waits(why)) => Some(why),
            Err(why @ Error::LogsLost { .. }) => Some(why.to_string()),
            Err(error) => return Err(error),
        };
        if let Some(why) = why {
            tracing::warn!("the resilver waits: {why}");
            status.waits = Some(why);
            status.waits_till = engine.env.now() + RETRY_SECS;
        }
        let waits = status.waits.is_some();
        let mut state = engine.state.write();
        if engine.in_flight.round() == round && state.config.resilver.is_running() {
            state.config.resilver = status;
            state.config_dirty = true;
        }
        Ok(!waits)
    }

    /// Returns whether everything that was written before the devices changed last is in a tree.
    fn is_ready(&self) -> Result<bool> {
        let engine = self.engine;
        let round = engine.in_flight.round();
        if engine.in_flight.resilver_round() == Some(round) {
            return Ok(true);
        }
        if !engine.in_flight.is_settled() {
            return Ok(false);
        }
        let space = SpaceInfo::of(self.engine);
        let now = engine.env.now();
        engine.commit_with(|_, state| {
            let progress = &mut state.config.resilver.progress;
            if progress.started == 0 {
                progress.started = now;
                progress.total = space.total - space.free.min(space.total);
                state.config_dirty = true;
            }
            Ok(())
        })?;
        engine.in_flight.set_resilver_round(round);
        Ok(true)
    }

    /// Ends a resilver: its members are complete, except those that lack data. True if the devices have changed
    /// meanwhile, and there is more to do.
    pub(crate) fn finish(&self, mut status: ResilverStatus, round: u64) -> Result<bool> {
        let engine = self.engine;
        status.progress.phase = ScrubPhase::Finished;
        status.progress.ended = engine.env.now();
        let replaced = engine.commit_with(|commit, state| {
            if engine.in_flight.round() != round {
                return Ok(None);
            }
            let done = state.settle_resilvered(commit, &status.lacking);
            let text = match status.progress.errors {
                0 => "resilver".to_owned(),
                errors => format!("resilver, {errors} records were not copied"),
            };
            state.config.resilver = status;
            state.config_dirty = true;
            log_own(commit, state, text);
            Ok(Some(done))
        })?;
        let Some(ReplacedMembers { devices, spares }) = replaced else {
            return Ok(true);
        };
        engine.release(&devices, false)?;
        engine.release(&spares, true)?;
        Ok(false)
    }
}

/// The members that are being resilvered, and what they may lack.
fn resilvering(state: &DatasetTable) -> Vec<(u64, u64)> {
    let devices = state.config.devices.iter();
    devices
        .filter(|device| device.state == DeviceState::Resilvering)
        .map(|device| (device.guid, device.from_txg))
        .collect()
}

/// Returns the reason why a resilver waits for the checkpoint.
fn unreadable(error: &Error) -> String {
    format!(
        "the checkpoint cannot be read now: {error}. It is tried again; without the checkpoint (pool checkpoint -d) the \
         resilver ends"
    )
}

/// The result of a part of a resilver.
enum ResilverOutcome {
    Done,
    More,
    /// The resilver cannot continue now.
    Waits(String),
}

impl VisitStep<'_> {
    fn resilver(
        &mut self,
        at: &mut ResilverPosition,
        members: &[(u64, u64)],
    ) -> Result<ResilverOutcome> {
        if at.stage == ResilverStage::Headers {
            self.refresh_headers(members)?;
            at.stage = ResilverStage::Datasets;
        }
        if at.head >= KEPT {
            return self.checkpoint(at, members);
        }
        match self.tree(at, members)? {
            ResilverOutcome::Done if self.lacks_checkpoint(members) => {
                *at = ResilverPosition {
                    stage: at.stage,
                    head: KEPT,
                    ..ResilverPosition::default()
                };
                Ok(ResilverOutcome::More)
            }
            progress => Ok(progress),
        }
    }

    /// Continues with the current state.
    fn tree(
        &mut self,
        at: &mut ResilverPosition,
        members: &[(u64, u64)],
    ) -> Result<ResilverOutcome> {
        match self.datasets_since(at, members)? {
            ResilverOutcome::Done => self.end_of_tree(),
            progress => Ok(progress),
        }
    }

    /// Returns whether a member is older than the checkpoint. When the checkpoint was made the member was complete. So
    /// it has lost writes since, or an earlier copy of the device came back.
    fn lacks_checkpoint(&self, members: &[(u64, u64)]) -> bool {
        let state = self.engine.state.read();
        let kept = state.checkpoint.as_ref();
        kept.is_some_and(|kept| members.iter().any(|(_, from)| *from < kept.txg))
    }

    /// Continues with the records that only the checkpoint has. They do not change.
    fn checkpoint(
        &mut self,
        at: &mut ResilverPosition,
        members: &[(u64, u64)],
    ) -> Result<ResilverOutcome> {
        let engine = self.engine;
        let committing = engine.lock_commits();
        engine.check_lease()?;
        let kept = match kept_state(engine, &committing) {
            Ok(Some(kept)) => kept,
            Ok(None) => return Ok(ResilverOutcome::Done),
            Err(error) if error.may_pass() => {
                return Ok(ResilverOutcome::Waits(unreadable(&error)));
            }
            Err(error) if error.is_loss() => {
                // The members lack it. They stay incomplete, until it can be read or is discarded.
                self.in_use = Some(&engine.space);
                self.report_checkpoint(&error);
                self.in_use = None;
                return Ok(ResilverOutcome::Done);
            }
            Err(error) => return Err(error),
        };
        let budget = self.left.min(KEPT_STEP);
        let mut step = VisitStep {
            engine: &kept,
            task: std::mem::replace(&mut self.task, VisitTask::Repair),
            left: budget,
            in_use: Some(&engine.space),
            status: &mut *self.status,
        };
        let mut within = ResilverPosition {
            head: at.head - KEPT,
            ..*at
        };
        let outcome = step.kept_since(&mut within, members);
        let left = step.left;
        self.task = step.task;
        self.left -= budget - left;
        *at = ResilverPosition {
            head: within.head | KEPT,
            ..within
        };
        outcome
    }

    /// Goes on with the datasets of the checkpoint, and then with its own records.
    fn kept_since(
        &mut self,
        at: &mut ResilverPosition,
        members: &[(u64, u64)],
    ) -> Result<ResilverOutcome> {
        if at.head < KEPT_OWN {
            if let ResilverOutcome::Done = self.datasets_since(at, members)? {
                *at = ResilverPosition {
                    stage: at.stage,
                    head: KEPT_OWN,
                    ..ResilverPosition::default()
                };
            }
            return Ok(ResilverOutcome::More);
        }
        let mut own = KeptAt {
            owner: at.head - KEPT_OWN,
            snapshot: at.entry,
            slot: at.slot,
        };
        let done = self.kept_arrays(&mut own)?;
        (at.head, at.entry, at.slot) = (KEPT_OWN + own.owner, own.snapshot, own.slot);
        Ok(match done {
            true => ResilverOutcome::Done,
            false => ResilverOutcome::More,
        })
    }

    /// Visits datasets and snapshots, starting at the position.
    fn datasets_since(
        &mut self,
        at: &mut ResilverPosition,
        members: &[(u64, u64)],
    ) -> Result<ResilverOutcome> {
        let oldest = members.iter().map(|(_, from)| *from).min().unwrap_or(0);
        let oldest = match self.moved_till() > oldest {
            // What was copied from a group that was removed was born at any time.
            true => 0,
            false => oldest,
        };
        while self.left > 0 {
            let entry = {
                let state = self.engine.state.read();
                at.find(&state)
            };
            let Some(entry) = entry else {
                return Ok(ResilverOutcome::Done);
            };
            let root = entry.roots[usize::from(at.array)];
            let min_birth = at.done_txg.max(oldest);
            match self.array(entry.id, at.array, &root, (at.slot, min_birth))? {
                ControlFlow::Break(slot) => at.slot = slot,
                ControlFlow::Continue(()) => at.pass(&entry),
            }
        }
        Ok(ResilverOutcome::More)
    }

    /// Continues with the pool's own records, after the records of destroyed datasets are freed.
    fn end_of_tree(&mut self) -> Result<ResilverOutcome> {
        match end_frees(self.engine)? {
            Frees::Done => {}
            Frees::More => return Ok(ResilverOutcome::More),
            Frees::Wait(why) => return Ok(ResilverOutcome::Waits(why)),
        }
        self.pool_arrays()?;
        self.logs()?;
        Ok(ResilverOutcome::Done)
    }

    /// The key area of a member that was away holds old keys.
    fn refresh_headers(&self, members: &[(u64, u64)]) -> Result<()> {
        let engine = self.engine;
        let _committing = engine.lock_commits();
        engine.check_lease()?;
        let blocks = engine.key_blocks_in_use();
        for (guid, _) in members {
            if let Err(error) = engine.disk.store.refresh_headers(*guid, &blocks) {
                engine.fault(*guid, error);
            }
        }
        Ok(())
    }
}

impl ResilverPosition {
    /// Returns the next entry to visit: the oldest entry of the dataset that is not done, or the next dataset. `None`
    /// at the end.
    fn find(&mut self, state: &DatasetTable) -> Option<Entry> {
        let mut heads = state.all().filter(|entry| !entry.is_snapshot());
        let head = heads.find(|entry| entry.id >= self.head)?;
        if head.id != self.head {
            *self = ResilverPosition {
                stage: self.stage,
                head: head.id,
                ..ResilverPosition::default()
            };
        }
        let snapshots = state.snapshots(head);
        let mut oldest_first = snapshots.iter().rev();
        let snapshot = oldest_first.find(|snapshot| snapshot.created_txg > self.done_txg);
        let entry = snapshot.unwrap_or(head);
        if entry.id != self.entry {
            // A snapshot that was made of the dataset meanwhile has what the dataset had. In any
            // other case there is something new to be seen in the slots before.
            if self.entry != head.id {
                (self.array, self.slot) = (0, 0);
            }
            self.entry = entry.id;
        }
        Some(Entry::clone(entry))
    }

    /// An array is done.
    fn pass(&mut self, entry: &Entry) {
        self.slot = 0;
        if self.array == 0 {
            self.array = 1;
            return;
        }
        self.array = 0;
        self.entry = 0;
        if entry.is_snapshot() {
            self.done_txg = entry.created_txg;
        } else {
            self.head += 1;
            self.done_txg = 0;
        }
    }
}
