//! Frees the space of destroyed datasets and snapshots, a limited amount with each commit.
//!
//! A destroyed dataset or snapshot leaves the dataset table at once. Its space waits in the free queue. A job in the
//! queue is a tree whose younger part is freed, or a list of dead records. The commit that frees a part of a job also
//! stores the progress of the job. So after a power cut no space is lost, and none is freed twice.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::frees::deadlist::{self, DeadEntry};
use crate::error::{Error, Result};
use crate::format::jobs::free_job::{FreeJob, FreeTarget};
use crate::format::records::extent::Class;
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::{RecordLocation, RecordPtr};
use crate::storage::array::{Overlay, walk};
use crate::storage::nodes::Nodes;
use crate::storage::reader::PoolReader;
use crate::storage::writer::txg::TxgWriter;

/// The number of records and nodes that a commit frees, about.
const STEP: usize = 16_384;

/// The function with which a job frees a record or node.
type Free = fn(&TxgWriter<'_>, &RecordLocation);

/// Reads for a job. A lost node or list counts as empty. So the job frees everything that other nodes and lists name.
struct PastLosses<'a> {
    disk: &'a PoolReader,
    /// True if a node or list that a device fails to read counts as lost too.
    gives_up: bool,
}

impl PastLosses<'_> {
    fn is_lost(&self, error: &Error) -> bool {
        match error.may_pass() {
            true => self.gives_up,
            false => error.is_loss(),
        }
    }

    /// The dead records in a chunk of a list.
    fn dead(&self, ptr: &RecordPtr) -> Result<Vec<DeadEntry>> {
        let read = self.disk.clear_record(ptr);
        self.past(
            read.and_then(|bytes| deadlist::decode_chunk(&bytes)),
            Vec::new,
        )
    }

    fn past<T>(&self, read: Result<T>, empty: impl FnOnce() -> T) -> Result<T> {
        match read {
            Err(error) if self.is_lost(&error) => {
                tracing::error!(%error, "a node of a destroyed dataset cannot be read; the space that it names stays allocated as long as the pool exists");
                Ok(empty())
            }
            read => read,
        }
    }
}

impl Nodes for PastLosses<'_> {
    fn node(&self, ptr: &RecordPtr, level: u8, slot: u64) -> Result<Arc<ArrayNode>> {
        self.past(self.disk.node(ptr, level, slot), || {
            Arc::new(ArrayNode::empty())
        })
    }

    fn units(&self) -> u64 {
        self.disk.units()
    }

    fn clear_record(&self, ptr: &RecordPtr) -> Result<Vec<u8>> {
        self.disk.clear_record(ptr)
    }
}

impl FreeJob {
    /// Frees up to `budget` records and nodes, with `free`. True if the job is done.
    fn step(
        &mut self,
        commit: &TxgWriter<'_>,
        disk: &PastLosses<'_>,
        free: Free,
        budget: &mut usize,
    ) -> Result<bool> {
        let min_birth = match self.what {
            FreeTarget::Tree { min_birth } => min_birth,
            FreeTarget::DeadRecords | FreeTarget::ListOnly => 0,
        };
        let what = self.what;
        let stopped = walk::visit(disk, &self.root, self.cursor, min_birth, &mut |visit| {
            let ptr = match visit {
                // It stops at records only, because the cursor is a slot. A node comes after everything below it.
                walk::Visit::Record(slot, _) if *budget == 0 => {
                    return Ok(ControlFlow::Break(slot));
                }
                walk::Visit::Record(_, ptr) | walk::Visit::Node(_, ptr, _) => ptr,
            };
            *budget = budget.saturating_sub(1);
            if ptr.level() == 0 && what == FreeTarget::DeadRecords {
                for dead in disk.dead(ptr)? {
                    free(commit, &dead.place());
                    *budget = budget.saturating_sub(1);
                }
            }
            free(commit, &ptr.place);
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
pub(crate) fn enqueue(state: &mut DatasetTable, jobs: impl IntoIterator<Item = Option<FreeJob>>) {
    for job in jobs.into_iter().flatten() {
        let slot = state.root.async_free_slot.get();
        state.root.async_free_slot = (slot + 1).into();
        state.async_free.insert(slot, job);
        state.async_free_dirty.insert(slot);
    }
}

/// Frees a part of the queue. If a device fails to read data for a job, the job waits, and others go on.
pub(crate) fn step(commit: &TxgWriter<'_>, state: &mut DatasetTable) -> Result<()> {
    let mut unread = commit.take_unread();
    let now = commit.core.env.now();
    // The oldest jobs first: slots ascend.
    let slots = state.async_free.keys().copied();
    let due: Vec<u64> = slots
        .filter(|slot| state.free_waits.is_due(*slot, now))
        .collect();
    let mut budget = STEP;
    for slot in due {
        let gives_up = state.free_waits.gives_up(slot, now);
        let free: Free = match gives_up {
            true => |commit, place| commit.free_now(place),
            false => |commit, place| commit.free(place),
        };
        if gives_up {
            commit.set_gives_up();
        }
        let disk = PastLosses {
            disk: &commit.core.disk,
            gives_up,
        };
        while budget > 0 {
            // Taken out while it runs. A job that is done stays out.
            let Some(mut job) = state.async_free.remove(&slot) else {
                break;
            };
            // What a job freed before it failed is undone, so that nothing is freed twice when it is tried again.
            let mark = commit.mark();
            match job.step(commit, &disk, free, &mut budget) {
                Err(error) if error.may_pass() && !gives_up => {
                    commit.undo_since(&mark);
                    tracing::warn!(%error, "a device stops freeing a destroyed dataset; it is tried again");
                    state.async_free.insert(slot, job);
                    state.free_waits.wait(slot, now);
                    break;
                }
                Ok(false) => {
                    state.async_free.insert(slot, job);
                }
                Ok(true) => {}
                Err(error) => {
                    // The nodes of the job contradict each other. Giving it up loses only space.
                    commit.undo_since(&mark);
                    tracing::error!(%error, "a destroyed dataset cannot be freed; what is not freed of that dataset yet stays allocated as long as the pool exists");
                }
            }
            match (gives_up, state.async_free.contains_key(&slot)) {
                (false, _) => state.free_waits.end(slot),
                (true, false) => state.free_waits.end_given_up(slot),
                // The next commit gives up the rest of the job.
                (true, true) => {}
            }
            state.async_free_dirty.insert(slot);
        }
    }
    // A new job in this commit, so that a power cut does not lose the places that could not be freed.
    unread.extend(commit.take_unread());
    if !unread.is_empty() {
        let list = deadlist::list_of(commit, &unread)?;
        let slot = state.root.async_free_slot.get();
        enqueue(state, [FreeJob::new(FreeTarget::DeadRecords, list)]);
        state.free_waits.wait_again(slot, now);
    }
    state.free_waits.settle();
    Ok(())
}

/// Writes the jobs that changed.
pub(crate) fn sync(commit: &TxgWriter<'_>, state: &mut DatasetTable) -> Result<()> {
    let mut overlay = Overlay::default();
    for slot in std::mem::take(&mut state.async_free_dirty) {
        let ptr = match state.async_free.get(&slot) {
            Some(job) => commit.place_record(Class::Meta, job.encode())?,
            None => RecordPtr::EMPTY,
        };
        overlay.put(slot, ptr);
    }
    let root = state.root.async_free;
    state.root.async_free = commit.update_pool_array(Class::Meta, &root, &overlay)?;
    Ok(())
}
