//! Resilver: bringing members of groups up to date. Needs no key.
//!
//! It visits what was born since a member was here last: of each dataset its snapshots, the oldest
//! first, and then the dataset itself, so that what two of them share is visited once. When a
//! snapshot is destroyed, what the next one inherits from it comes later in this order; one that is
//! made while the dataset is visited takes its place. So nothing is passed over, whatever happens
//! meanwhile. Last come the pool's own records. New writes go to the member from the start.

use std::ops::ControlFlow;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::config::DeviceState;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::removal::RETRY_SECS;
use crate::scrub::{ScrubPhase, ScrubRecord, ScrubStatus, Step, Task};
use crate::state::State;

/// How far a resilver is, or how the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResilverStatus {
    /// Times, bytes and errors. `repaired` counts bytes of records that were copied; with parity the
    /// members got less than that.
    pub progress: ScrubStatus,
    /// Why it does not go on at the moment.
    pub waits: Option<String>,
    /// When it is tried again, in seconds since 1970.
    waits_till: u64,
    position: Position,
}

/// Where a resilver is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    stage: Stage,
    /// The dataset.
    head: u64,
    /// What it and its snapshots have that was born by then is done.
    done_txg: u64,
    /// The snapshot, or the dataset itself.
    entry: u64,
    array: u8,
    slot: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Labels and keys.
    #[default]
    Headers,
    Datasets,
}

/// A status as it lies in the configuration record.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct ResilverRecord {
    progress: ScrubRecord,
    position: [U64; 6],
}

impl ResilverStatus {
    /// Whether one is under way.
    pub fn is_running(&self) -> bool {
        self.progress.phase == ScrubPhase::Running
    }

    /// One that begins.
    pub(crate) fn running() -> ResilverStatus {
        let mut status = ResilverStatus::default();
        status.progress.phase = ScrubPhase::Running;
        status
    }

    /// Nothing needs it any more.
    pub(crate) fn cancel(&mut self) {
        if self.is_running() {
            self.progress.phase = ScrubPhase::Stopped;
        }
    }

    pub(crate) fn to_record(&self) -> ResilverRecord {
        let at = &self.position;
        let position = [
            at.stage as u64,
            at.head,
            at.done_txg,
            at.entry,
            u64::from(at.array),
            at.slot,
        ];
        ResilverRecord {
            progress: self.progress.to_record(),
            position: position.map(U64::new),
        }
    }

    pub(crate) fn from_record(record: &ResilverRecord) -> Option<ResilverStatus> {
        let [stage, head, done_txg, entry, array, slot] = record.position.map(U64::get);
        Some(ResilverStatus {
            progress: ScrubStatus::from_record(&record.progress)?,
            waits: None,
            waits_till: 0,
            position: Position {
                stage: match stage {
                    0 => Stage::Headers,
                    1 => Stage::Datasets,
                    _ => return None,
                },
                head,
                done_txg,
                entry,
                array: u8::try_from(array).ok().filter(|array| *array < 2)?,
                slot,
            },
        })
    }
}

impl Pool {
    /// How far the resilver is, or how the last one ended.
    pub fn resilver_status(&self) -> ResilverStatus {
        self.shared.state.read().config.resilver.clone()
    }

    /// Copies about `budget` bytes more. False once nothing is left to do now. Where a log cannot be read it
    /// waits, and whatever else there is to do goes on.
    pub fn resilver_step(&self, budget: u64) -> Result<bool> {
        let shared = &self.shared;
        let status = self.resilver_status();
        if shared.read_only || !status.is_running() || shared.env.now() < status.waits_till {
            return Ok(false);
        }
        if !self.is_ready_to_resilver()? {
            std::thread::yield_now();
            return Ok(true);
        }
        let (mut status, members, round) = {
            let state = shared.state.read();
            let round = shared.placing.round();
            (state.config.resilver.clone(), resilvering(&state), round)
        };
        if shared.placing.resilver_round() != Some(round) {
            return Ok(true);
        }
        let mut position = status.position;
        let mut step = Step {
            pool: self,
            task: Task::Fill(members.clone()),
            left: budget,
            status: &mut status.progress,
        };
        let outcome = step.resilver(&mut position, &members);
        status.position = position;
        status.waits = None;
        match &outcome {
            Ok(true) => return self.finish_resilver(status, round),
            Ok(false) => {}
            Err(why @ Error::LogsLost { .. }) => {
                tracing::warn!("the resilver waits: {why}");
                status.waits = Some(why.to_string());
                status.waits_till = shared.env.now() + RETRY_SECS;
            }
            Err(_) => return outcome,
        }
        let waits = status.waits.is_some();
        let mut state = shared.state.write();
        if shared.placing.round() == round && state.config.resilver.is_running() {
            state.config.resilver = status;
            state.config_dirty = true;
        }
        Ok(!waits)
    }

    /// Everything that was written before the devices changed last is to be in a tree.
    fn is_ready_to_resilver(&self) -> Result<bool> {
        let shared = &self.shared;
        let round = shared.placing.round();
        if shared.placing.resilver_round() == Some(round) {
            return Ok(true);
        }
        if !shared.placing.is_settled() {
            return Ok(false);
        }
        let space = self.space();
        let now = shared.env.now();
        shared.commit_with(|_, state| {
            let progress = &mut state.config.resilver.progress;
            if progress.started == 0 {
                progress.started = now;
                progress.total = space.total - space.free.min(space.total);
                state.config_dirty = true;
            }
            Ok(())
        })?;
        shared.placing.set_resilver_round(round);
        Ok(true)
    }
}

/// The members that are being resilvered, and what they may lack.
fn resilvering(state: &State) -> Vec<(u64, u64)> {
    let devices = state.config.devices.iter();
    devices
        .filter(|device| device.state == DeviceState::Resilvering)
        .map(|device| (device.guid, device.from_txg))
        .collect()
}

impl Step<'_> {
    /// True at the end.
    fn resilver(&mut self, at: &mut Position, members: &[(u64, u64)]) -> Result<bool> {
        if at.stage == Stage::Headers {
            self.refresh_headers(members)?;
            at.stage = Stage::Datasets;
        }
        let oldest = members.iter().map(|(_, from)| *from).min().unwrap_or(0);
        let oldest = match self.moved_till() > oldest {
            // What was copied from a group that was removed was born at any time.
            true => 0,
            false => oldest,
        };
        while self.left > 0 {
            let entry = {
                let state = self.pool.shared.state.read();
                at.find(&state)
            };
            let Some(entry) = entry else {
                return self.finish_resilver();
            };
            let root = entry.roots[usize::from(at.array)];
            let min_birth = at.done_txg.max(oldest);
            match self.array(entry.id, at.array, &root, (at.slot, min_birth))? {
                ControlFlow::Break(slot) => at.slot = slot,
                ControlFlow::Continue(()) => at.pass(&entry),
            }
        }
        Ok(false)
    }

    /// Last come the pool's own records, once nothing of what is destroyed needs to be read any more.
    fn finish_resilver(&mut self) -> Result<bool> {
        let shared = &self.pool.shared;
        if !shared.state.read().reap.is_empty() {
            shared.commit_with(|_, _| Ok(()))?;
            return Ok(false);
        }
        self.pool_arrays()?;
        self.logs()?;
        Ok(true)
    }

    /// The key area of a member that was away holds old keys.
    fn refresh_headers(&self, members: &[(u64, u64)]) -> Result<()> {
        let shared = &self.pool.shared;
        let _committing = shared.lock_commits();
        let blocks = shared.key_blocks_in_use();
        for (guid, _) in members {
            if let Err(error) = shared.disk.store.refresh_headers(*guid, &blocks) {
                shared.fault(*guid, error);
            }
        }
        Ok(())
    }
}

impl Position {
    /// What is to be visited next: the oldest entry of the dataset that is not done, or the next
    /// dataset. `None` at the end.
    fn find(&mut self, state: &State) -> Option<Entry> {
        let mut heads = state.all().filter(|entry| !entry.is_snapshot());
        let head = heads.find(|entry| entry.id >= self.head)?;
        if head.id != self.head {
            *self = Position {
                stage: self.stage,
                head: head.id,
                ..Position::default()
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
