//! Destroying what is large, a bounded piece with each commit.
//!
//! A destroyed dataset or snapshot is out of the dataset table at once. What it occupied waits in
//! the reap queue: trees whose younger part is to be freed, and lists of dead records. A job
//! remembers how far it came, in the same commit that frees what it came by, so a power cut neither
//! leaks nor frees twice.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::array::{Overlay, walk};
use crate::commit::Commit;
use crate::deadlist;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::RecordPtr;
use crate::space::Class;
use crate::state::State;
use crate::wire::{Reader, Writer};

const MAGIC: u32 = u32::from_le_bytes(*b"REAP");

/// One commit frees about this many records and nodes.
const STEP: usize = 16_384;

/// Something to free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReapJob {
    pub(crate) what: Reap,
    /// The tree, or the array of chunks.
    pub(crate) root: RecordPtr,
    /// The first slot that is not done.
    pub(crate) cursor: u64,
}

/// What a job frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reap {
    /// The part of a tree that was born after `min_birth`.
    Tree { min_birth: u64 },
    /// The chunks of a list of dead records, and these records.
    DeadRecords,
    /// The chunks of a list of dead records, but not the records: something has them still.
    ListOnly,
}

impl ReapJob {
    /// A job at its start, unless there is nothing to do.
    pub(crate) fn new(what: Reap, root: RecordPtr) -> Option<ReapJob> {
        (!root.is_empty()).then_some(ReapJob {
            what,
            root,
            cursor: 0,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, min_birth) = match self.what {
            Reap::Tree { min_birth } => (1, min_birth),
            Reap::DeadRecords => (2, 0),
            Reap::ListOnly => (3, 0),
        };
        let mut w = Writer::default();
        w.u32(MAGIC)
            .u32(kind)
            .u64(min_birth)
            .u64(self.cursor)
            .value(&self.root);
        w.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<ReapJob> {
        let mut r = Reader::new(bytes);
        if r.u32()? != MAGIC {
            return None;
        }
        let kind = r.u32()?;
        let min_birth = r.u64()?;
        Some(ReapJob {
            what: match kind {
                1 => Reap::Tree { min_birth },
                2 => Reap::DeadRecords,
                3 => Reap::ListOnly,
                _ => return None,
            },
            cursor: r.u64()?,
            root: r.value()?,
        })
    }

    pub(crate) fn load_all(disk: &Disk, root: &RecordPtr) -> Result<BTreeMap<u64, ReapJob>> {
        let mut jobs = BTreeMap::new();
        walk::each_record(disk, root, &mut |slot, ptr| {
            let job = ReapJob::decode(&disk.clear_record(ptr)?)
                .ok_or_else(|| Error::inconsistent("reap queue", "a job cannot be read"))?;
            jobs.insert(slot, job);
            Ok(())
        })?;
        Ok(jobs)
    }

    /// Frees up to `budget` records and nodes; true if that was all.
    fn step(&mut self, commit: &Commit<'_>, budget: &mut usize) -> Result<bool> {
        let disk = &commit.shared.disk;
        let min_birth = match self.what {
            Reap::Tree { min_birth } => min_birth,
            Reap::DeadRecords | Reap::ListOnly => 0,
        };
        let what = self.what;
        let stopped = walk::visit(disk, &self.root, self.cursor, min_birth, &mut |visit| {
            let ptr = match visit {
                walk::Visit::Record(slot, _) if *budget == 0 => {
                    return Ok(ControlFlow::Break(slot));
                }
                walk::Visit::Record(_, ptr) | walk::Visit::Node(_, ptr) => ptr,
            };
            *budget = budget.saturating_sub(1);
            if ptr.level() == 0 && what == Reap::DeadRecords {
                for dead in deadlist::decode_chunk(&disk.clear_record(ptr)?)? {
                    commit.free(&dead.place());
                    *budget = budget.saturating_sub(1);
                }
            }
            commit.free(&ptr.place);
            Ok(ControlFlow::Continue(()))
        })?;
        if let ControlFlow::Break(slot) = stopped {
            self.cursor = slot;
            return Ok(false);
        }
        Ok(true)
    }
}

/// Puts jobs into the queue.
pub(crate) fn enqueue(state: &mut State, jobs: impl IntoIterator<Item = Option<ReapJob>>) {
    for job in jobs.into_iter().flatten() {
        let slot = state.root.reap_slot.get();
        state.root.reap_slot = (slot + 1).into();
        state.reap.insert(slot, job);
        state.reap_dirty.insert(slot);
    }
}

/// Does a piece of the queue's work.
pub(crate) fn step(commit: &Commit<'_>, state: &mut State) -> Result<()> {
    let mut budget = STEP;
    while budget > 0 {
        let Some((slot, mut job)) = state.reap.pop_first() else {
            return Ok(());
        };
        state.reap_dirty.insert(slot);
        let mark = commit.mark();
        match job.step(commit, &mut budget) {
            Ok(true) => {}
            Ok(false) => {
                state.reap.insert(slot, job);
            }
            Err(error) => {
                // Without the node nobody can tell what hangs below it. Its space is lost, the rest
                // of the pool is not.
                commit.undo_since(&mark);
                tracing::error!(%error, "destroying stopped at damage; the space below it is not given back while the pool lives");
            }
        }
    }
    Ok(())
}

/// Writes the jobs that changed.
pub(crate) fn sync(commit: &Commit<'_>, state: &mut State) -> Result<()> {
    let mut overlay = Overlay::default();
    for slot in std::mem::take(&mut state.reap_dirty) {
        let ptr = match state.reap.get(&slot) {
            Some(job) => commit.place_record(Class::Meta, job.encode())?,
            None => RecordPtr::EMPTY,
        };
        overlay.put(slot, ptr);
    }
    let root = state.root.reap;
    state.root.reap = commit.update_pool_array(Class::Meta, &root, &overlay)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_round_trip() {
        for what in [
            Reap::Tree { min_birth: 7 },
            Reap::DeadRecords,
            Reap::ListOnly,
        ] {
            let job = ReapJob {
                what,
                root: RecordPtr::EMPTY,
                cursor: 9,
            };
            let bytes = job.encode();
            assert_eq!(ReapJob::decode(&bytes), Some(job));
            for len in 0..bytes.len() {
                assert_eq!(ReapJob::decode(&bytes[..len]), None);
            }
        }
    }
}
