//! Scrub: reading everything, and mending what one whole copy allows to mend. Needs no key.
//!
//! A scrub goes through the pool in steps, datasets in the order of their ids, each array in the
//! order of its slots, and visits what two snapshots share once. It walks the tree of the last
//! commit; what it finds damaged it looks up again, since a commit may have freed and reused it
//! meanwhile. Its position is part of the configuration record, so that it goes on after an import.

mod evacuate;
mod examine;
mod heal;
mod own;

use std::ops::ControlFlow;
use std::sync::Arc;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::array::walk::{self, Visit};
use crate::error::{Error, Result};
use crate::layout::{RecordPtr, coverage};
use crate::open::ArrayKind;
use crate::pool::Pool;
use crate::state::head_id;

pub(crate) use evacuate::Evacuated;

/// Damage beyond this many records is only counted.
const DAMAGE_MAX: usize = 256;

/// Whether a scrub runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubPhase {
    /// None has run yet.
    #[default]
    None,
    /// One is under way.
    Running,
    /// The last one reached the end.
    Finished,
    /// The last one was stopped.
    Stopped,
}

/// How far a scrub is, or how the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Whether it runs.
    pub phase: ScrubPhase,
    /// When it began, seconds since 1970.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// Bytes read.
    pub examined: u64,
    /// Bytes that were allocated when it began.
    pub total: u64,
    /// Copies rewritten from a whole one.
    pub repaired: u64,
    /// Records and nodes of which no copy is whole.
    pub errors: u64,
    /// The first of these, since the pool was imported.
    pub damage: Vec<Damage>,
    position: Position,
}

/// A record or node of which no copy is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The dataset or snapshot; 0 for the pool's own records.
    pub dataset: u64,
    /// Which of its arrays.
    pub array: Option<ArrayKind>,
    /// The first slot that is lost.
    pub slot: u64,
    /// The level of what is damaged: 0 a record, else a node.
    pub level: u8,
}

/// Where a scrub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    dataset: u64,
    array: u8,
    slot: u64,
}

/// A status as it lies in the configuration record.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct ScrubRecord {
    phase: U32,
    array: U32,
    numbers: [U64; 8],
}

impl ScrubStatus {
    pub(crate) fn to_record(&self) -> ScrubRecord {
        let numbers = [
            self.started,
            self.ended,
            self.examined,
            self.total,
            self.repaired,
            self.errors,
            self.position.dataset,
            self.position.slot,
        ];
        ScrubRecord {
            phase: (self.phase as u32).into(),
            array: u32::from(self.position.array).into(),
            numbers: numbers.map(U64::new),
        }
    }

    pub(crate) fn from_record(record: &ScrubRecord) -> Option<ScrubStatus> {
        let [
            started,
            ended,
            examined,
            total,
            repaired,
            errors,
            dataset,
            slot,
        ] = record.numbers.map(U64::get);
        Some(ScrubStatus {
            phase: match record.phase.get() {
                0 => ScrubPhase::None,
                1 => ScrubPhase::Running,
                2 => ScrubPhase::Finished,
                3 => ScrubPhase::Stopped,
                _ => return None,
            },
            started,
            ended,
            examined,
            total,
            repaired,
            errors,
            damage: Vec::new(),
            position: Position {
                dataset,
                array: u8::try_from(record.array.get())
                    .ok()
                    .filter(|array| *array < 2)?,
                slot,
            },
        })
    }
}

impl Pool {
    /// How far the scrub is, or how the last one ended.
    pub fn scrub_status(&self) -> ScrubStatus {
        self.shared.state.read().config.scrub.clone()
    }

    /// Begins a scrub from the start; one that was stopped goes on where it was.
    pub fn scrub_start(&self) -> Result<()> {
        let space = self.space();
        let now = self.shared.env.now();
        self.set_scrub(|status| {
            if status.phase == ScrubPhase::Running {
                return;
            }
            if status.phase != ScrubPhase::Stopped {
                *status = ScrubStatus {
                    started: now,
                    total: space.total - space.free.min(space.total),
                    ..ScrubStatus::default()
                };
            }
            status.phase = ScrubPhase::Running;
        })
    }

    /// Stops the scrub. It can go on later.
    pub fn scrub_stop(&self) -> Result<()> {
        let now = self.shared.env.now();
        self.set_scrub(|status| {
            if status.phase == ScrubPhase::Running {
                status.phase = ScrubPhase::Stopped;
                status.ended = now;
            }
        })
    }

    fn set_scrub(&self, change: impl FnOnce(&mut ScrubStatus)) -> Result<()> {
        self.shared.commit_with(|_, state| {
            change(&mut state.config.scrub);
            state.config_dirty = true;
            Ok(())
        })
    }

    /// Reads about `budget` bytes more. False once nothing is left to do.
    pub fn scrub_step(&self, budget: u64) -> Result<bool> {
        let mut status = self.scrub_status();
        // It waits for a resilver, which matters more, unless that waits itself.
        let resilver = self.resilver_status();
        let has_to_wait = resilver.is_running() && resilver.waits.is_none();
        if status.phase != ScrubPhase::Running || has_to_wait {
            return Ok(false);
        }
        let mut step = Step {
            pool: self,
            task: Task::Mend,
            left: budget,
            status: &mut status,
        };
        let done = step.run()?;
        if done {
            status.phase = ScrubPhase::Finished;
            status.ended = self.shared.env.now();
        }
        if done {
            self.set_scrub(|current| *current = status)?;
        } else {
            // Where it is goes into the next commit that happens anyway.
            let mut state = self.shared.state.write();
            if state.config.scrub.phase == ScrubPhase::Running {
                state.config.scrub = status;
                state.config_dirty = true;
            }
        }
        Ok(!done)
    }
}

/// What is done with each record and node.
pub(crate) enum Task {
    /// Every copy is read, on every member that holds everything, and bad ones are mended.
    Mend,
    /// Members that lack it get it: those that may lack what was born after a transaction group.
    Fill(Vec<(u64, u64)>),
    /// What lies in a group is copied to others.
    Evacuate(Evacuated),
}

/// A part of a scrub or resilver.
pub(crate) struct Step<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) task: Task,
    /// Bytes to read before it ends.
    pub(crate) left: u64,
    pub(crate) status: &'a mut ScrubStatus,
}

impl Step<'_> {
    /// True at the end of the pool.
    fn run(&mut self) -> Result<bool> {
        if self.status.position == Position::default() {
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
            Position {
                dataset,
                array,
                slot,
            }
        } else {
            // The next id, which need not exist.
            Position {
                dataset: dataset + 1,
                array: 0,
                slot: 0,
            }
        };
    }

    /// The array at a position, as the last commit left it.
    fn current_root(&self, at: Position) -> Option<(u64, u64, RecordPtr)> {
        let state = self.pool.shared.state.read();
        let entry = state.get(at.dataset)?;
        Some((
            entry.id,
            entry.prev_snap_txg,
            entry.roots[usize::from(at.array)],
        ))
    }

    fn next_dataset(&self, from: u64) -> Option<u64> {
        let state = self.pool.shared.state.read();
        state.all().map(|entry| entry.id).find(|id| *id > from)
    }

    /// Works on what an array of a dataset has from a slot on that was born after `min_birth`. Breaks with
    /// the slot where it is to go on.
    pub(crate) fn array(
        &mut self,
        id: u64,
        array: u8,
        root: &RecordPtr,
        (from, min_birth): (u64, u64),
    ) -> Result<ControlFlow<u64>> {
        let kind = ArrayKind::ALL[usize::from(array)];
        let disk = &self.pool.shared.disk;
        let mut last = from;
        let result = walk::visit(disk, root, from, min_birth, &mut |visit| {
            let (slot, ptr) = match visit {
                Visit::Record(slot, _) if self.left == 0 => return Ok(ControlFlow::Break(slot)),
                Visit::Record(slot, ptr) => {
                    last = slot;
                    (slot, ptr)
                }
                Visit::Node(slot, ptr) => (slot, ptr),
            };
            let pool = self.pool;
            let current = || is_current(pool, id, kind, slot, ptr);
            if !self.examine(&ptr.place, &current)? && current()? {
                self.report(id, Some(kind), slot, ptr.level());
            }
            Ok(ControlFlow::Continue(()))
        });
        match result {
            // A node that cannot be read hides what is below it; go on behind it.
            Err(Error::Damaged { .. } | Error::Inconsistent { .. }) => {
                Ok(self.skip_damage(id, kind, root, last))
            }
            other => other,
        }
    }

    /// Reports a node below `seen` that cannot be read, unless it is gone by now, and says where to go on:
    /// behind `at`, or not at all, unless the tree is another one.
    fn skip_damage(
        &mut self,
        id: u64,
        kind: ArrayKind,
        seen: &RecordPtr,
        at: u64,
    ) -> ControlFlow<u64> {
        let root = {
            let state = self.pool.shared.state.read();
            match state.get(id) {
                Some(entry) => entry.roots[kind as usize],
                None => return ControlFlow::Continue(()),
            }
        };
        match walk::first_unreadable(&self.pool.shared.disk, &root, at) {
            Some((slot, level)) => {
                self.report(id, Some(kind), slot, level);
                match slot.saturating_add(coverage(level)) {
                    next if next > at => ControlFlow::Break(next),
                    // It hides everything, and was reported before.
                    _ => ControlFlow::Continue(()),
                }
            }
            // It can be read by now, but who knows until when.
            None if root == *seen => {
                self.report(id, Some(kind), at, 0);
                ControlFlow::Break(at.saturating_add(1))
            }
            // Look again from here.
            None => ControlFlow::Break(at),
        }
    }

    pub(crate) fn report(&mut self, dataset: u64, array: Option<ArrayKind>, slot: u64, level: u8) {
        self.status.errors = self.status.errors.saturating_add(1);
        tracing::warn!(
            dataset,
            ?array,
            slot,
            level,
            "scrub found damage that it cannot mend"
        );
        if self.status.damage.len() < DAMAGE_MAX {
            self.status.damage.push(Damage {
                dataset,
                array,
                slot,
                level,
            });
        }
    }

    fn count(&mut self, bytes: usize) {
        self.status.examined = self.status.examined.saturating_add(bytes as u64);
        self.left = self.left.saturating_sub(bytes as u64);
    }
}

/// Whether a pointer is in the tree of the last commit, of a dataset or of one of its snapshots.
pub(crate) fn is_current(
    pool: &Pool,
    id: u64,
    kind: ArrayKind,
    slot: u64,
    ptr: &RecordPtr,
) -> Result<bool> {
    let disk = &pool.shared.disk;
    // Its own first: a record that it had and has no more is mostly gone, but a snapshot may have it.
    let roots: Vec<RecordPtr> = {
        let state = pool.shared.state.read();
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
