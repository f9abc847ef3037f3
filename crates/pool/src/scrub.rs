//! Scrub: reading everything, and mending what one whole copy allows to mend. Needs no key.
//!
//! A scrub goes through the pool in steps, datasets in the order of their ids, each array in the
//! order of its slots, and visits what two snapshots share once. It walks the tree of the last
//! commit; what it finds damaged it looks up again, since a commit may have freed and reused it
//! meanwhile. Its position is part of the configuration record, so that it goes on after an import.

mod own;

use std::io::IoSlice;
use std::ops::ControlFlow;

use store::UNIT;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::array::walk::{self, Visit};
use crate::error::{Error, Result};
use crate::layout::{Place, RecordPtr, checksum, coverage};
use crate::open::ArrayKind;
use crate::pool::Pool;
use crate::scatter::{Run, map_run};

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
        if status.phase != ScrubPhase::Running {
            return Ok(false);
        }
        let mut step = Step {
            pool: self,
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

struct Step<'a> {
    pool: &'a Pool,
    left: u64,
    status: &'a mut ScrubStatus,
}

impl Step<'_> {
    /// True at the end of the pool.
    fn run(&mut self) -> Result<bool> {
        if self.status.position == Position::default() {
            self.headers()?;
            self.pool_arrays()?;
            self.go_to(1, 0, 0);
        }
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

    fn array(
        &mut self,
        id: u64,
        array: u8,
        root: &RecordPtr,
        (from, min_birth): (u64, u64),
    ) -> Result<ControlFlow<u64>> {
        let kind = ArrayKind::ALL[usize::from(array)];
        let disk = &self.pool.shared.disk;
        let mut first = from;
        let result = walk::visit(disk, root, from, min_birth, &mut |visit| {
            let (slot, ptr) = match visit {
                Visit::Record(slot, _) if self.left == 0 => return Ok(ControlFlow::Break(slot)),
                Visit::Record(slot, ptr) => (slot, ptr),
                Visit::Node(ptr) => (first, ptr),
            };
            first = slot;
            let pool = self.pool;
            let current = || is_current(pool, id, kind, slot, ptr);
            if !self.examine(ptr, &current)? && current()? {
                self.report(id, Some(kind), slot, ptr.level());
            }
            Ok(ControlFlow::Continue(()))
        });
        match result {
            // A node that cannot be read hides what is below it; go on behind it.
            Err(Error::Damaged { .. } | Error::Inconsistent { .. }) => {
                Ok(self.skip_damage(id, kind, first))
            }
            other => other,
        }
    }

    /// Reports a node that cannot be read, unless it is gone by now, and says where to go on.
    fn skip_damage(&mut self, id: u64, kind: ArrayKind, at: u64) -> ControlFlow<u64> {
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
                ControlFlow::Break(slot.saturating_add(coverage(level)))
            }
            // The tree has changed since: look again from here.
            None => ControlFlow::Break(at),
        }
    }

    fn report(&mut self, dataset: u64, array: Option<ArrayKind>, slot: u64, level: u8) {
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

    /// Reads every copy, and rewrites the bad ones from a whole one, if the pointer is still
    /// `current`. False if there is none.
    fn examine(&mut self, ptr: &RecordPtr, current: &dyn Fn() -> Result<bool>) -> Result<bool> {
        if ptr.place.is_scattered() && !self.examine_map(&ptr.place, current)? {
            return Ok(false);
        }
        let disk = &self.pool.shared.disk;
        let size = ptr.place.disk_size() as usize;
        let mut good: Option<Vec<u8>> = None;
        let mut bad = Vec::new();
        for copy in ptr.place.copy_numbers() {
            let mut buf = vec![0; size];
            let read = disk.read_copy(&ptr.place, copy, &mut buf);
            self.count(size);
            if read && checksum(&buf) == ptr.place.checksum {
                good = Some(buf);
            } else {
                bad.push(copy);
            }
        }
        let Some(good) = good else { return Ok(false) };
        for copy in bad {
            let runs = disk.runs(&ptr.place, copy)?;
            self.mend(&runs, &good, current)?;
        }
        Ok(true)
    }

    /// Reads every copy of a scatter map, and mends it likewise.
    fn examine_map(&mut self, place: &Place, current: &dyn Fn() -> Result<bool>) -> Result<bool> {
        let mut good = None;
        let mut bad = Vec::new();
        for addr in place.copies() {
            self.count(UNIT as usize);
            match self.pool.shared.disk.read_map(place, &addr) {
                Some((_, bytes)) => good = Some(bytes),
                None => bad.push(addr),
            }
        }
        let Some(good) = good else { return Ok(false) };
        for addr in bad {
            self.mend(&[map_run(&addr)], &good, current)?;
        }
        Ok(true)
    }

    fn count(&mut self, bytes: usize) {
        self.status.examined = self.status.examined.saturating_add(bytes as u64);
        self.left = self.left.saturating_sub(bytes as u64);
    }

    /// Rewrites a copy, which lies at `runs`, with the bytes that it should have.
    fn mend(
        &mut self,
        runs: &[Run],
        good: &[u8],
        current: &dyn Fn() -> Result<bool>,
    ) -> Result<()> {
        let shared = &self.pool.shared;
        if shared.read_only {
            return Ok(());
        }
        // What is in the tree of the last commit stays where it is until the next one is done.
        let _committing = shared.lock_commits();
        if current()? {
            for run in runs {
                let bytes = &good[run.bytes.clone()];
                let store = &shared.disk.store;
                store.write(run.segment, run.offset, &[IoSlice::new(bytes)])?;
            }
            self.status.repaired = self.status.repaired.saturating_add(1);
        }
        Ok(())
    }
}

/// Whether a pointer is in the tree of the last commit.
fn is_current(pool: &Pool, id: u64, kind: ArrayKind, slot: u64, ptr: &RecordPtr) -> Result<bool> {
    let root = {
        let state = pool.shared.state.read();
        match state.get(id) {
            Some(entry) => entry.roots[kind as usize],
            None => return Ok(false),
        }
    };
    walk::contains(&pool.shared.disk, &root, slot, ptr)
}
