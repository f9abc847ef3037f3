//! Scrub: reads everything, and repairs each record that has one good copy. It needs no key.
//!
//! A scrub goes through the pool in steps: the datasets by their ids, and each array by its slots. It visits records
//! that two snapshots share once. It walks the tree of the last commit. A commit may have freed and reused a place
//! meanwhile, so the scrub looks up damaged records again. Its position is stored in the configuration record, so it
//! continues after an import.

pub(crate) mod checkpoint_records;
mod evacuate;
mod examine;
mod heal;
pub(crate) mod pool_records;

use crate::engine::gate::CommitEngine;
use crate::ops::info::SpaceInfo;
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use store::SegmentId;

use crate::engine::datasets::table::head_id;
use crate::error::{Error, Result};
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::extent::StoredExtent;
use crate::format::records::node::coverage;
use crate::format::records::pointer::RecordPtr;
use crate::ops::pool::Pool;
use crate::storage::array::walk::{self, Visit};
use crate::storage::in_flight::Ticket;
use crate::storage::space::Space;

use crate::format::jobs::scrub_status::{Damage, ScrubPhase, ScrubPosition, ScrubStatus};

/// Damage beyond this many records is only counted.
const DAMAGE_MAX: usize = 256;

/// The scrub of a pool: its state, its steps, and repairs of copies that readers found bad.
#[derive(Clone, Copy)]
pub struct Scrubber<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

impl Pool {
    /// The scrub, which reads and repairs all records.
    pub fn scrubber(&self) -> Scrubber<'_> {
        Scrubber {
            engine: &self.engine,
        }
    }
}

impl Scrubber<'_> {
    /// The progress of the scrub, or the result of the last one.
    pub fn status(&self) -> ScrubStatus {
        self.engine.state.visible().config.scrub.clone()
    }

    /// Begins a scrub from the start. A paused scrub continues from its position.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn start(&self) -> Result<()> {
        let space = SpaceInfo::of(self.engine);
        let now = self.engine.env.now();
        self.set(|status| {
            if status.phase == ScrubPhase::Running {
                return;
            }
            if status.phase != ScrubPhase::Paused {
                *status = ScrubStatus {
                    started: now,
                    total: space.total - space.free.min(space.total),
                    ..ScrubStatus::default()
                };
            }
            status.phase = ScrubPhase::Running;
        })
    }

    /// Pauses the scrub. [`Scrubber::start`](crate::Scrubber::start) continues it, even after an import.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn pause(&self) -> Result<()> {
        let now = self.engine.env.now();
        self.set(|status| {
            if status.phase == ScrubPhase::Running {
                status.phase = ScrubPhase::Paused;
                // Without a position, only this distinguishes it from a stopped scrub.
                let has_begun = status.position != ScrubPosition::default();
                status.ended = if has_begun { now } else { 0 };
            }
        })
    }

    /// Stops the scrub, whether it runs or is paused. The next one begins from the start.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn stop(&self) -> Result<()> {
        let now = self.engine.env.now();
        self.set(|status| {
            if matches!(status.phase, ScrubPhase::Running | ScrubPhase::Paused) {
                status.phase = ScrubPhase::Stopped;
                status.ended = now.max(1);
                status.position = ScrubPosition::default();
            }
        })
    }

    fn set(&self, change: impl FnOnce(&mut ScrubStatus)) -> Result<()> {
        self.engine.commit_with(|_, state| {
            change(&mut state.config.scrub);
            state.config_dirty = true;
            Ok(())
        })
    }

    /// Reads about `budget` more bytes. False if nothing is left to do.
    ///
    /// # Errors
    /// As [`Pool::commit`]. Damage is counted in the status, and is no error.
    pub fn step(&self, budget: u64) -> Result<bool> {
        let mut status = self.status();
        let (started, position) = (status.started, status.position);
        let is_same = |current: &ScrubStatus| {
            let goes_on = current.phase == ScrubPhase::Running;
            goes_on && current.started == started && current.position == position
        };
        // A resilver is more important: the scrub waits for it, unless the resilver waits too.
        let resilver = self.engine.state.read().config.resilver.clone();
        let has_to_wait = resilver.is_running() && resilver.waits.is_none();
        if status.phase != ScrubPhase::Running || has_to_wait {
            return Ok(false);
        }
        let mut step = VisitStep {
            engine: self.engine,
            task: VisitTask::Repair,
            left: budget,
            in_use: None,
            status: &mut status,
        };
        let is_through = step.run()?;
        let left = step.left;
        let done = is_through && self.step_kept(left, &mut status)?;
        if done {
            status.phase = ScrubPhase::Finished;
            status.ended = self.engine.env.now();
        }
        if done {
            // A command may have paused or stopped it meanwhile.
            self.set(|current| {
                if is_same(current) {
                    *current = status;
                }
            })?;
        } else {
            // The next commit stores the position. None is made for it.
            let mut state = self.engine.state.write();
            if is_same(&state.config.scrub) {
                state.config.scrub = status;
                state.config_dirty = true;
            }
        }
        Ok(!done)
    }
}

/// The work on each record and node.
pub(crate) enum VisitTask {
    /// Read every copy, on every member that holds everything, and repair bad ones.
    Repair,
    /// Write it to the members that lack it.
    Fill(ResilverMembers),
    /// Copy it to other groups if it is in this group.
    Evacuate(EvacuatedCopies),
}

/// The result for a record or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordFinding {
    /// The work of this step is done.
    Good,
    /// Every copy was read, and none is good.
    Damaged,
    /// A device failed to read a copy, and no other one is good.
    Unreadable,
}

impl RecordFinding {
    /// The result for a record or node that could not be read with this error.
    pub(crate) fn of_loss(error: &Error) -> RecordFinding {
        match error {
            Error::Unreadable { .. } => RecordFinding::Unreadable,
            _ => RecordFinding::Damaged,
        }
    }
}

/// The members that a resilver brings up to date.
pub(crate) struct ResilverMembers {
    /// The members, each with a transaction group: it may lack data that was born later.
    members: Vec<(u64, u64)>,
    /// Members that lack data of which no good copy was found.
    pub(crate) lacking: BTreeSet<u64>,
    /// Members that did not get the last examined record or node.
    missed: Vec<u64>,
}

impl ResilverMembers {
    pub(crate) fn new(members: Vec<(u64, u64)>, lacking: BTreeSet<u64>) -> ResilverMembers {
        ResilverMembers {
            members,
            lacking,
            missed: Vec::new(),
        }
    }

    /// Notes that members lack the data that was reported last. It is unknown which members lack the data below a lost
    /// node.
    fn note_missed(&mut self) {
        let missed = std::mem::take(&mut self.missed);
        match missed.is_empty() {
            true => self.lacking.extend(self.members.iter().map(|m| m.0)),
            false => self.lacking.extend(missed),
        }
    }
}

/// The copies from a group that are not in the remap table yet.
pub(crate) struct EvacuatedCopies {
    group: u16,
    pub(crate) copies: Vec<(StoredExtent, Vec<StoredExtent>)>,
    seen: HashSet<(SegmentId, u32)>,
    /// The copies are in no tree: a resilver waits for them.
    _ticket: Ticket,
}

impl EvacuatedCopies {
    pub(crate) fn new(group: u16, ticket: Ticket) -> EvacuatedCopies {
        EvacuatedCopies {
            group,
            copies: Vec::new(),
            seen: HashSet::new(),
            _ticket: ticket,
        }
    }
}

/// A part of a scrub or resilver.
pub(crate) struct VisitStep<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
    pub(crate) task: VisitTask,
    /// Bytes to read before it ends.
    pub(crate) left: u64,
    /// Records and nodes that this space has are skipped.
    pub(crate) in_use: Option<&'a Space>,
    pub(crate) status: &'a mut ScrubStatus,
}

impl VisitStep<'_> {
    /// True at the end of the pool.
    fn run(&mut self) -> Result<bool> {
        if self.status.position == ScrubPosition::default() {
            self.headers()?;
            self.pool_arrays()?;
            self.logs()?;
            self.go_to(1, 0, 0);
        }
        self.datasets()
    }

    /// Works on datasets and snapshots from the position on. True at the end of them.
    fn datasets(&mut self) -> Result<bool> {
        while self.left > 0 {
            let at = self.status.position;
            let Some((id, min_birth, root)) = self.current_root(at) else {
                match self.next_dataset(at.dataset) {
                    Some(id) => self.go_to(id, 0, 0),
                    None => return Ok(true),
                }
                continue;
            };
            let stopped = self.array(id, at.array, &root, (at.slot, min_birth))?;
            match stopped {
                ControlFlow::Break(slot) => self.go_to(id, at.array, slot),
                ControlFlow::Continue(()) if at.array == 0 => self.go_to(id, 1, 0),
                ControlFlow::Continue(()) => {
                    self.go_to(id, 2, 0);
                }
            }
        }
        Ok(false)
    }

    fn go_to(&mut self, dataset: u64, array: u8, slot: u64) {
        self.status.position = if array < 2 {
            ScrubPosition {
                dataset,
                array,
                slot,
            }
        } else {
            // The next id, which need not exist.
            ScrubPosition {
                dataset: dataset + 1,
                array: 0,
                slot: 0,
            }
        };
    }

    /// The array at a position, as the last commit left it.
    fn current_root(&self, at: ScrubPosition) -> Option<(u64, u64, RecordPtr)> {
        let state = self.engine.state.read();
        let entry = state.get(at.dataset)?;
        Some((
            entry.id,
            entry.prev_snap_txg,
            entry.roots[usize::from(at.array)],
        ))
    }

    fn next_dataset(&self, from: u64) -> Option<u64> {
        let state = self.engine.state.read();
        state.all().map(|entry| entry.id).find(|id| *id > from)
    }

    /// Works on the records and nodes of an array that were born after `min_birth`, from a slot on. Breaks with
    /// the slot where it is to go on.
    pub(crate) fn array(
        &mut self,
        id: u64,
        array: u8,
        root: &RecordPtr,
        (from, min_birth): (u64, u64),
    ) -> Result<ControlFlow<u64>> {
        let kind = ArrayKind::ALL[usize::from(array)];
        let disk = &self.engine.disk;
        let mut last = from;
        let result = walk::visit(disk, root, from, min_birth, &mut |visit| {
            let (slot, ptr) = match visit {
                Visit::Record(slot, _) if self.left == 0 => return Ok(ControlFlow::Break(slot)),
                Visit::Record(slot, ptr) => {
                    last = slot;
                    (slot, ptr)
                }
                Visit::Node(slot, ptr, _) => (slot, ptr),
            };
            let engine = self.engine;
            let current = || is_current(engine, id, kind, slot, ptr);
            let found = self.examine(&ptr.place, &current)?;
            if found != RecordFinding::Good && current()? {
                self.report(found, id, Some(kind), (slot, ptr.level()));
            }
            Ok(ControlFlow::Continue(()))
        });
        match result {
            // The records below a node that cannot be read are unknown. Continue after it.
            Err(error) if error.is_loss() => {
                let found = RecordFinding::of_loss(&error);
                Ok(self.skip_damage(found, (id, kind), root, last))
            }
            other => other,
        }
    }

    /// Reports a node below `seen` that cannot be read, unless it is gone by now, and says where to go on:
    /// behind `at`, or not at all, unless the tree is another one.
    fn skip_damage(
        &mut self,
        found: RecordFinding,
        (id, kind): (u64, ArrayKind),
        seen: &RecordPtr,
        at: u64,
    ) -> ControlFlow<u64> {
        let root = {
            let state = self.engine.state.read();
            match state.get(id) {
                Some(entry) => entry.roots[kind as usize],
                None => return ControlFlow::Continue(()),
            }
        };
        match walk::first_unreadable(&self.engine.disk, &root, at) {
            Some((slot, level)) => {
                self.forget_missed();
                self.report(found, id, Some(kind), (slot, level));
                match slot.saturating_add(coverage(level)) {
                    next if next > at => ControlFlow::Break(next),
                    // It hides everything, and was reported before.
                    _ => ControlFlow::Continue(()),
                }
            }
            // It can be read now, but perhaps not later.
            None if root == *seen => {
                self.forget_missed();
                self.report(found, id, Some(kind), (at, 0));
                ControlFlow::Break(at.saturating_add(1))
            }
            // Look again from here.
            None => ControlFlow::Break(at),
        }
    }

    /// Notes damage below a node: it is unknown which members lack the data.
    pub(crate) fn forget_missed(&mut self) {
        if let VisitTask::Fill(filling) = &mut self.task {
            filling.missed.clear();
        }
    }

    /// Counts a record or node without a good copy, with its place and its level.
    pub(crate) fn report(
        &mut self,
        found: RecordFinding,
        dataset: u64,
        array: Option<ArrayKind>,
        (slot, level): (u64, u8),
    ) {
        let is_unreadable = found == RecordFinding::Unreadable;
        if let VisitTask::Fill(filling) = &mut self.task {
            filling.note_missed();
        }
        self.status.errors = self.status.errors.saturating_add(1);
        let unreadable = u64::from(is_unreadable);
        self.status.unreadable = self.status.unreadable.saturating_add(unreadable);
        match is_unreadable {
            true => tracing::warn!(
                dataset,
                ?array,
                slot,
                level,
                "no good copy was found, and a device failed to read one"
            ),
            false => tracing::warn!(
                dataset,
                ?array,
                slot,
                level,
                "scrub found damage that it cannot repair"
            ),
        }
        if self.status.damage.len() < DAMAGE_MAX {
            let kept = self.in_use.map(|_| {
                let state = self.engine.state.read();
                state.get(dataset).map(|entry| state.name_of(entry))
            });
            self.status.damage.push(Damage {
                dataset,
                array,
                slot,
                level,
                is_unreadable,
                in_checkpoint: kept.map(Option::unwrap_or_default),
            });
        }
    }

    fn count(&mut self, bytes: usize) {
        self.status.examined = self.status.examined.saturating_add(bytes as u64);
        self.left = self.left.saturating_sub(bytes as u64);
    }
}

/// Returns whether a pointer is in the tree of the last commit, of a dataset or of one of its snapshots.
pub(crate) fn is_current(
    engine: &CommitEngine,
    id: u64,
    kind: ArrayKind,
    slot: u64,
    ptr: &RecordPtr,
) -> Result<bool> {
    let disk = &engine.disk;
    // Its own tree first. A record that the dataset no longer has is usually freed, but a snapshot may have it.
    let roots: Vec<RecordPtr> = {
        let state = engine.state.read();
        let Some(entry) = state.get(id) else {
            return Ok(false);
        };
        let head = state.get(head_id(entry));
        let line = head.into_iter().flat_map(|head| {
            let snapshots = state.snapshots(head).into_iter();
            snapshots.chain([Arc::clone(head)])
        });
        let all = std::iter::once(Arc::clone(entry)).chain(line);
        let may_have = |root: &RecordPtr| root.place.birth() >= ptr.place.birth();
        all.map(|entry| entry.roots[kind as usize])
            .filter(may_have)
            .collect()
    };
    for root in roots {
        if walk::contains(disk, &root, slot, ptr)? {
            return Ok(true);
        }
    }
    Ok(false)
}
