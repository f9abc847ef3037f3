//! Scrub of the pool's own data: its records, and the headers of its devices.

use crate::engine::gate::CommitEngine;
use std::ops::ControlFlow;

use store::{HeaderCheck, Store};

use super::{RecordFinding, VisitStep, VisitTask};
use crate::engine::frees::deadlist::{self, Sublist};
use crate::error::Result;
use crate::format::records::pointer::RecordPtr;
use crate::storage::array::walk::{self, Visit};

/// An array of the pool itself, or its configuration.
#[derive(Clone, Copy, Debug)]
enum PoolArray {
    Config,
    Checkpoint,
    Datasets,
    Table,
    Bitmaps,
    History,
    AsyncFree,
    Dedup,
    Remap,
    /// The deadlist of a dataset or snapshot.
    Deadlist(u64),
    /// The list for one snapshot in such a deadlist.
    Sublist(u64, u64),
}

const ARRAYS: [PoolArray; 7] = [
    PoolArray::Datasets,
    PoolArray::Table,
    PoolArray::Bitmaps,
    PoolArray::History,
    PoolArray::AsyncFree,
    PoolArray::Dedup,
    PoolArray::Remap,
];

impl PoolArray {
    /// Returns the root after the last commit; `None` if the array does not exist any more.
    fn root(self, engine: &CommitEngine) -> Result<Option<RecordPtr>> {
        let state = engine.state.read();
        let root = &state.root;
        Ok(match self {
            PoolArray::Config => Some(root.config),
            PoolArray::Checkpoint => root.has_checkpoint().then_some(root.checkpoint),
            PoolArray::Datasets => Some(root.datasets),
            PoolArray::Table => Some(root.table),
            PoolArray::Bitmaps => Some(root.bitmaps),
            PoolArray::History => Some(root.history),
            PoolArray::AsyncFree => Some(root.async_free),
            PoolArray::Dedup => Some(root.dedup),
            PoolArray::Remap => Some(root.remap),
            PoolArray::Deadlist(id) => state.get(id).map(|entry| entry.deadlist),
            PoolArray::Sublist(id, snapshot) => match state.get(id).map(|entry| entry.deadlist) {
                Some(list) => {
                    drop(state);
                    Some(deadlist::sublist(&engine.disk, &list, snapshot)?.root)
                }
                None => None,
            },
        })
    }

    /// Returns whether it is written anew when a group is removed, so that the remap table is not needed to read the
    /// data that leads to it.
    fn moves_by_itself(self) -> bool {
        matches!(
            self,
            PoolArray::Config | PoolArray::Table | PoolArray::Bitmaps | PoolArray::Remap
        )
    }

    /// Returns whether the array still has this record or node at `slot`.
    fn has(self, engine: &CommitEngine, slot: u64, ptr: &RecordPtr) -> Result<bool> {
        match self.root(engine)? {
            None => Ok(false),
            Some(root) if root == *ptr => Ok(true),
            Some(root) => walk::contains(&engine.disk, &root, slot, ptr),
        }
    }
}

/// The position of the visit of the checkpoint's own records.
#[derive(Clone, Copy)]
pub(crate) struct KeptAt {
    /// An array by its number, or behind these the id of the entry with the deadlist.
    pub(crate) owner: u64,
    /// The snapshot of a sublist.
    pub(crate) snapshot: u64,
    /// The slot in the array or sublist.
    pub(crate) slot: u64,
}

impl KeptAt {
    pub(crate) fn new(owner: u64) -> KeptAt {
        KeptAt {
            owner,
            snapshot: 0,
            slot: 0,
        }
    }

    /// Returns the position as a scrub stores it: a slot that is stored, and one that is not.
    pub(super) fn of_scrub(owner: u64, slot: u64, within: u64) -> KeptAt {
        let (snapshot, slot) = match owner > ARRAYS.len() as u64 {
            true => (slot, within),
            false => (0, slot),
        };
        KeptAt {
            owner,
            snapshot,
            slot,
        }
    }

    pub(super) fn to_scrub(self) -> (u64, u64) {
        match self.owner > ARRAYS.len() as u64 {
            true => (self.snapshot, self.slot),
            false => (self.slot, 0),
        }
    }

    /// Returns the next array to visit, and its root; `None` at the end.
    fn find(&mut self, engine: &CommitEngine) -> Result<Option<(PoolArray, RecordPtr)>> {
        let arrays = ARRAYS.len() as u64;
        if self.owner == arrays {
            let config = PoolArray::Config.root(engine)?;
            return Ok(config.map(|root| (PoolArray::Config, root)));
        }
        let own = match ARRAYS.get(self.owner as usize) {
            Some(own) => *own,
            None => {
                let first = self.owner - arrays;
                let state = engine.state.read();
                let Some(id) = state.all().map(|entry| entry.id).find(|id| *id >= first) else {
                    return Ok(None);
                };
                if id != first {
                    *self = KeptAt::new(arrays + id);
                }
                PoolArray::Deadlist(id)
            }
        };
        Ok(own.root(engine)?.map(|root| (own, root)))
    }
}

impl VisitStep<'_> {
    /// The pool's own records, all in one step. Commits wait only while their places are collected.
    pub(crate) fn pool_arrays(&mut self) -> Result<()> {
        let engine = self.engine;
        let mut found = Vec::new();
        {
            let _committing = engine.lock_commits();
            let ids: Vec<u64> = engine.state.read().all().map(|e| e.id).collect();
            for own in [PoolArray::Config, PoolArray::Checkpoint] {
                found.extend(own.root(engine)?.map(|ptr| (own, 0, ptr)));
            }
            for own in ARRAYS {
                self.collect(own, &mut found)?;
            }
            for id in ids {
                self.collect(PoolArray::Deadlist(id), &mut found)?;
                let list = PoolArray::Deadlist(id).root(engine)?;
                let list = list.unwrap_or(RecordPtr::EMPTY);
                let sublists = deadlist::sublists(&engine.disk, &list);
                for (snapshot, _) in sublists.unwrap_or_default() {
                    self.collect(PoolArray::Sublist(id, snapshot), &mut found)?;
                }
            }
        }
        if let VisitTask::Evacuate(_) = self.task {
            found.retain(|(own, ..)| !own.moves_by_itself());
        }
        for (own, slot, ptr) in found {
            // A commit may have freed it meanwhile. If the look-up fails, it counts as damaged.
            let current = || own.has(engine, slot, &ptr).unwrap_or(true);
            let mendable = || Ok(own.has(engine, slot, &ptr).unwrap_or(false));
            let examined = self.examine(&ptr.place, &mendable)?;
            if examined != RecordFinding::Good && current() {
                self.report(examined, 0, None, (slot, ptr.level()));
            }
        }
        Ok(())
    }

    /// Goes on with the own records of the checkpoint, which do not change: first the arrays, then each deadlist with its
    /// sublists. True at their end.
    pub(crate) fn kept_arrays(&mut self, at: &mut KeptAt) -> Result<bool> {
        while self.left > 0 {
            let Some((own, root)) = at.find(self.engine)? else {
                return Ok(true);
            };
            let stopped = match own {
                PoolArray::Config => {
                    self.kept_record(0, &root)?;
                    ControlFlow::Continue(())
                }
                PoolArray::Deadlist(_) => self.kept_deadlist(&root, at)?,
                _ => match self.kept_array(&root, at.slot)? {
                    ControlFlow::Break(slot) => ControlFlow::Break((0, slot)),
                    ControlFlow::Continue(()) => ControlFlow::Continue(()),
                },
            };
            *at = match stopped {
                ControlFlow::Break((snapshot, slot)) => KeptAt {
                    owner: at.owner,
                    snapshot,
                    slot,
                },
                ControlFlow::Continue(()) => KeptAt::new(at.owner + 1),
            };
        }
        Ok(false)
    }

    /// Breaks with the snapshot whose sublist is next, and the slot there.
    fn kept_deadlist(
        &mut self,
        root: &RecordPtr,
        from: &KeptAt,
    ) -> Result<ControlFlow<(u64, u64)>> {
        let engine = self.engine;
        let visited = walk::visit(&engine.disk, root, from.snapshot, 0, &mut |visit| {
            let (Visit::Record(snapshot, ptr) | Visit::Node(snapshot, ptr, _)) = visit;
            let is_list = matches!(visit, Visit::Record(..));
            if is_list && self.left == 0 {
                return Ok(ControlFlow::Break((snapshot, 0)));
            }
            self.kept_record(snapshot, ptr)?;
            if !is_list {
                return Ok(ControlFlow::Continue(()));
            }
            let list = engine.disk.clear_record(ptr);
            let Ok(list) = list.and_then(|bytes| Sublist::decode(&bytes)) else {
                // It was reported.
                return Ok(ControlFlow::Continue(()));
            };
            let slot = match snapshot == from.snapshot {
                true => from.slot,
                false => 0,
            };
            let stopped = self.kept_array(&list.root, slot)?;
            Ok(match stopped {
                ControlFlow::Break(slot) => ControlFlow::Break((snapshot, slot)),
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
            })
        });
        self.or_report(visited, root)
    }

    /// Breaks with the next slot. Each call does at least one record.
    fn kept_array(&mut self, root: &RecordPtr, from: u64) -> Result<ControlFlow<u64>> {
        let disk = &self.engine.disk;
        let mut has_begun = false;
        let visited = walk::visit(disk, root, from, 0, &mut |visit| {
            let (Visit::Record(slot, ptr) | Visit::Node(slot, ptr, _)) = visit;
            if matches!(visit, Visit::Record(..)) {
                if self.left == 0 && has_begun {
                    return Ok(ControlFlow::Break(slot));
                }
                has_begun = true;
            }
            self.kept_record(slot, ptr)?;
            Ok(ControlFlow::Continue(()))
        });
        self.or_report(visited, root)
    }

    fn kept_record(&mut self, slot: u64, ptr: &RecordPtr) -> Result<()> {
        let examined = self.examine(&ptr.place, &|| Ok(true))?;
        if examined != RecordFinding::Good {
            self.report(examined, 0, None, (slot, ptr.level()));
        }
        Ok(())
    }

    /// Reports a node that cannot be read. The records below it are unknown.
    fn or_report<B>(
        &mut self,
        visited: Result<ControlFlow<B>>,
        root: &RecordPtr,
    ) -> Result<ControlFlow<B>> {
        match visited {
            Err(error) if error.is_loss() => {
                self.forget_missed();
                self.report(RecordFinding::of_loss(&error), 0, None, (0, root.level()));
                Ok(ControlFlow::Continue(()))
            }
            visited => visited,
        }
    }

    fn collect(
        &mut self,
        own: PoolArray,
        found: &mut Vec<(PoolArray, u64, RecordPtr)>,
    ) -> Result<()> {
        let Some(root) = own.root(self.engine)? else {
            return Ok(());
        };
        let visited = walk::visit_all(&self.engine.disk, &root, &mut |visit| {
            let (Visit::Record(slot, ptr) | Visit::Node(slot, ptr, _)) = visit;
            found.push((own, slot, *ptr));
            Ok(())
        });
        if let Err(error) = visited {
            self.forget_missed();
            self.report(RecordFinding::of_loss(&error), 0, None, (0, root.level()));
        }
        Ok(())
    }

    /// Labels, the newest superblock, and the key blocks in use, in every copy on every device.
    pub(crate) fn headers(&mut self) -> Result<()> {
        let engine = self.engine;
        let _committing = engine.lock_commits();
        let (txg, blocks) = (self.engine.committed_txg(), engine.key_blocks_in_use());
        let store: &Store = engine.disk.store.as_ref();
        let HeaderCheck {
            examined,
            repaired,
            lost,
        } = store.check_headers(txg, &blocks, !engine.read_only)?;
        drop(_committing);
        self.count(examined as usize);
        self.status.repaired += repaired;
        for _ in 0..lost {
            self.report(RecordFinding::Damaged, 0, None, (0, 0));
        }
        Ok(())
    }
}
