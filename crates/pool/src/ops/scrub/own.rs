//! Scrub of the pool's own data: its records, and the headers of its devices.

use store::{HeaderCheck, Store};

use super::{Examined, Step, Task};
use crate::engine::deadlist;
use crate::error::Result;
use crate::format::pointer::RecordPtr;
use crate::ops::pool::Pool;
use crate::storage::array::walk::{self, Visit};

/// One of the pool's own arrays, or its configuration.
#[derive(Clone, Copy, Debug)]
enum Own {
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

const ARRAYS: [Own; 7] = [
    Own::Datasets,
    Own::Table,
    Own::Bitmaps,
    Own::History,
    Own::AsyncFree,
    Own::Dedup,
    Own::Remap,
];

impl Own {
    /// Its root after the last commit; `None` if it does not exist any more.
    fn root(self, pool: &Pool) -> Result<Option<RecordPtr>> {
        let state = pool.engine.state.read();
        let root = &state.root;
        Ok(match self {
            Own::Config => Some(root.config),
            Own::Checkpoint => root.has_checkpoint().then_some(root.checkpoint),
            Own::Datasets => Some(root.datasets),
            Own::Table => Some(root.table),
            Own::Bitmaps => Some(root.bitmaps),
            Own::History => Some(root.history),
            Own::AsyncFree => Some(root.async_free),
            Own::Dedup => Some(root.dedup),
            Own::Remap => Some(root.remap),
            Own::Deadlist(id) => state.get(id).map(|entry| entry.deadlist),
            Own::Sublist(id, snapshot) => match state.get(id).map(|entry| entry.deadlist) {
                Some(list) => {
                    drop(state);
                    Some(deadlist::sublist(&pool.engine.disk, &list, snapshot)?.root)
                }
                None => None,
            },
        })
    }

    /// Whether it is written anew when a group is removed, so that the remap table is not needed to read the
    /// data that leads to it.
    fn moves_by_itself(self) -> bool {
        matches!(self, Own::Config | Own::Table | Own::Bitmaps | Own::Remap)
    }

    /// Whether it still has this record or node where `slot` is.
    fn has(self, pool: &Pool, slot: u64, ptr: &RecordPtr) -> Result<bool> {
        match self.root(pool)? {
            None => Ok(false),
            Some(root) if root == *ptr => Ok(true),
            Some(root) => walk::contains(&pool.engine.disk, &root, slot, ptr),
        }
    }
}

impl Step<'_> {
    /// The pool's own records are few: all in one step.
    pub(crate) fn pool_arrays(&mut self) -> Result<()> {
        let pool = self.pool;
        let mut found = Vec::new();
        {
            let _committing = pool.engine.lock_commits();
            let ids: Vec<u64> = pool.engine.state.read().all().map(|e| e.id).collect();
            for own in [Own::Config, Own::Checkpoint] {
                found.extend(own.root(pool)?.map(|ptr| (own, 0, ptr)));
            }
            for own in ARRAYS {
                self.collect(own, &mut found)?;
            }
            for id in ids {
                self.collect(Own::Deadlist(id), &mut found)?;
                let list = Own::Deadlist(id).root(pool)?;
                let list = list.unwrap_or(RecordPtr::EMPTY);
                let sublists = deadlist::sublists(&pool.engine.disk, &list);
                for (snapshot, _) in sublists.unwrap_or_default() {
                    self.collect(Own::Sublist(id, snapshot), &mut found)?;
                }
            }
        }
        if let Task::Evacuate(_) = self.task {
            found.retain(|(own, ..)| !own.moves_by_itself());
        }
        for (own, slot, ptr) in found {
            // A commit may have freed it meanwhile. If the look-up fails, it counts as damaged.
            let current = || own.has(pool, slot, &ptr).unwrap_or(true);
            let mendable = || Ok(own.has(pool, slot, &ptr).unwrap_or(false));
            let examined = self.examine(&ptr.place, &mendable)?;
            if examined != Examined::Good && current() {
                self.report(examined, 0, None, (slot, ptr.level()));
            }
        }
        Ok(())
    }

    fn collect(&mut self, own: Own, found: &mut Vec<(Own, u64, RecordPtr)>) -> Result<()> {
        let Some(root) = own.root(self.pool)? else {
            return Ok(());
        };
        let visited = walk::visit_all(&self.pool.engine.disk, &root, &mut |visit| {
            let (Visit::Record(slot, ptr) | Visit::Node(slot, ptr, _)) = visit;
            found.push((own, slot, *ptr));
            Ok(())
        });
        if let Err(error) = visited {
            self.forget_missed();
            self.report(Examined::of_loss(&error), 0, None, (0, root.level()));
        }
        Ok(())
    }

    /// Labels, the newest superblock, and the key blocks in use, in every copy on every device.
    pub(crate) fn headers(&mut self) -> Result<()> {
        let engine = &self.pool.engine;
        let _committing = engine.lock_commits();
        let (txg, blocks) = (self.pool.committed_txg(), engine.key_blocks_in_use());
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
            self.report(Examined::Damaged, 0, None, (0, 0));
        }
        Ok(())
    }
}
