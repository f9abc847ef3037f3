//! Inodes in memory: their lookups, and their records that are not in the pool yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, RwLock};
use pool::{PlacedRecord, SpaceReservation};
use vfs::Ino;

use crate::buffer::RecordBuffer;
use crate::core::io::workers::RunningJobs;
use crate::error::Result;

const SHARDS: usize = 32;

/// An inode that is in use, or that has records in memory.
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    /// Held shared to read contents, exclusively to change them.
    pub(crate) io: RwLock<()>,
    /// Records that were changed and are not in the pool yet. Changed under a hold only.
    pub(crate) records: Mutex<BTreeMap<u64, DirtyRecord>>,
    /// The space of its records on the devices.
    pub(crate) stored: StoredCache,
    /// Lookups that `forget` has not returned yet. Changed under the lock of the shard.
    lookups: Mutex<u64>,
}

/// A record in memory that is newer than the pool's.
pub(crate) struct DirtyRecord {
    /// The plaintext, up to the end of the file.
    pub(crate) buffer: Arc<RecordBuffer>,
    /// The slot in `data`.
    pub(crate) slot: u64,
    pub(crate) stage: RecordStage,
    /// The end of the part that was written sequentially from the beginning; 0 if it was written in another order.
    pub(crate) run: usize,
    /// True if sequential writes have filled it. Then it is not likely to be changed or read again soon.
    pub(crate) is_streamed: bool,
    /// The number of copies to store.
    pub(crate) copies: usize,
    /// Space for it in the pool, until a transaction group takes it over.
    pub(crate) reserved: Option<SpaceReservation>,
}

impl Inode {
    /// The contents of a record that is in memory.
    pub(crate) fn dirty(&self, record: u64) -> Option<Arc<RecordBuffer>> {
        let records = self.records.lock();
        records.get(&record).map(|dirty| Arc::clone(&dirty.buffer))
    }
}

/// The space of a file on the devices.
#[derive(Clone, Copy)]
pub(crate) struct FileSpace {
    /// `None` if computing it would take too long.
    pub(crate) bytes: Option<u64>,
    /// True if the answer is valid until the file changes.
    pub(crate) is_settled: bool,
}

impl FileSpace {
    /// Too many changes wait for a commit, or a node cannot be read now.
    pub(crate) const NOT_NOW: FileSpace = FileSpace {
        bytes: None,
        is_settled: false,
    };
}

/// A state of a file: the number of its own changes, and the number of changes to all files at once.
type InodeVersion = (u64, u64);

/// The last computed space of a file on the devices, and the number of changes of the file.
#[derive(Default)]
pub(crate) struct StoredCache {
    changes: AtomicU64,
    found: Mutex<Option<(InodeVersion, FileSpace)>>,
}

impl StoredCache {
    /// Called when the records of the file change.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The space in this state of the file, if it was computed.
    pub(crate) fn found(&self, version: InodeVersion) -> Option<FileSpace> {
        let (then, found) = (*self.found.lock())?;
        (then == version).then_some(found)
    }

    pub(crate) fn keep(&self, version: InodeVersion, found: FileSpace) {
        *self.found.lock() = Some((version, found));
    }
}

/// The progress of a dirty record.
#[derive(Clone)]
pub(crate) enum RecordStage {
    /// The record waits for a commit.
    Dirty,
    /// A worker seals it ahead of the commit.
    Sealing(Arc<SealJob>),
    /// The running commit writes it.
    Syncing,
}

/// The work of one worker on one record.
#[derive(Default)]
pub(crate) struct SealJob {
    /// True if a commit waits for the job.
    pub(crate) frozen: AtomicBool,
    /// True if a worker, or the waiting commit, has begun the job.
    begun: AtomicBool,
    /// Held until the record is in the open transaction group, or the waiting commit has it.
    pub(crate) under_way: RunningJobs,
    outcome: Mutex<Option<Result<PlacedRecord>>>,
    done: Condvar,
}

impl SealJob {
    /// Hands the outcome to the waiting commit.
    pub(crate) fn deliver(&self, outcome: Result<PlacedRecord>) {
        debug_assert!(self.is_frozen(), "a commit waits for it");
        *self.outcome.lock() = Some(outcome);
        self.done.notify_all();
    }

    /// True for the first caller, which then does the job. A commit does the job itself and does not wait for a free
    /// worker. If another pool is on a volume of this pool, all workers may be waiting for this commit.
    pub(crate) fn begin(&self) -> bool {
        !self.begun.swap(true, Ordering::AcqRel)
    }

    /// Waits for the outcome.
    pub(crate) fn wait(&self) -> Result<PlacedRecord> {
        let mut outcome = self.outcome.lock();
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => self.done.wait(&mut outcome),
            }
        }
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }
}

/// The inodes in memory.
pub(crate) struct Inodes {
    shards: Vec<Mutex<HashMap<Ino, Arc<Inode>>>>,
    /// Inodes with dirty records, in the order in which they are written.
    pub(crate) dirty: Mutex<BTreeMap<Ino, Arc<Inode>>>,
    /// Lookups of all inodes that were not returned yet.
    lookups: AtomicU64,
    /// Raised when records of any file may take different space although the files did not change.
    all_changed: AtomicU64,
}

impl Inodes {
    pub(crate) fn new() -> Inodes {
        Inodes {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            dirty: Mutex::default(),
            lookups: AtomicU64::new(0),
            all_changed: AtomicU64::new(0),
        }
    }

    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Arc<Inode>>> {
        &self.shards[(ino % SHARDS as u64) as usize]
    }

    /// The inode, if it is in memory.
    pub(crate) fn find(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.shard(ino).lock().get(&ino).cloned()
    }

    /// Calls `look` with the inode. It stays in memory during the call, even if its last user releases it.
    pub(crate) fn with<R>(&self, ino: Ino, look: impl FnOnce(&Arc<Inode>) -> R) -> R {
        let inode = self.get(ino);
        let seen = look(&inode);
        drop(inode);
        self.release(ino);
        seen
    }

    /// Called when records of any file may take different space although the files did not change.
    pub(crate) fn forget_stored(&self) {
        self.all_changed.fetch_add(1, Ordering::AcqRel);
    }

    /// The present state of a file. Call it before reading the file.
    pub(crate) fn version_of(&self, inode: &Inode) -> InodeVersion {
        // Read before the file: a change during the computation makes its result outdated.
        let changes = inode.stored.changes.load(Ordering::Acquire);
        (changes, self.all_changed.load(Ordering::Acquire))
    }

    /// Does the same as [`Inodes::with`], with `None` if the inode is not in memory.
    pub(crate) fn with_known<R>(&self, ino: Ino, look: impl FnOnce(Option<&Inode>) -> R) -> R {
        let Some(inode) = self.find(ino) else {
            return look(None);
        };
        let seen = look(Some(&inode));
        drop(inode);
        self.release(ino);
        seen
    }

    /// The inode, which stays in memory while it is in use.
    pub(crate) fn get(&self, ino: Ino) -> Arc<Inode> {
        let mut shard = self.shard(ino).lock();
        Arc::clone(shard.entry(ino).or_insert_with(|| {
            Arc::new(Inode {
                ino,
                io: RwLock::new(()),
                records: Mutex::default(),
                stored: StoredCache::default(),
                lookups: Mutex::new(0),
            })
        }))
    }

    /// Counts a lookup.
    pub(crate) fn look_up(&self, ino: Ino) {
        let inode = self.get(ino);
        // `inode` keeps it in memory until the lookup is counted.
        *inode.lookups.lock() += 1;
        self.lookups.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the inode has lookups.
    pub(crate) fn is_looked_up(&self, ino: Ino) -> bool {
        self.find(ino)
            .is_some_and(|inode| *inode.lookups.lock() > 0)
    }

    /// The inodes with lookups.
    pub(crate) fn known(&self) -> Vec<Ino> {
        let mut known = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let looked_up = shard.values().filter(|inode| *inode.lookups.lock() > 0);
            known.extend(looked_up.map(|inode| inode.ino));
        }
        known
    }

    /// Returns whether any inode has lookups.
    pub(crate) fn are_looked_up(&self) -> bool {
        self.lookups.load(Ordering::Relaxed) > 0
    }

    /// Returns lookups. True if these were the last.
    pub(crate) fn forget(&self, ino: Ino, count: u64) -> bool {
        let mut shard = self.shard(ino).lock();
        let Some(inode) = shard.get(&ino) else {
            return false;
        };
        let left = {
            let mut lookups = inode.lookups.lock();
            // The kernel may return more than it has: it is not trusted with the count.
            let count = count.min(*lookups);
            *lookups -= count;
            self.lookups.fetch_sub(count, Ordering::Relaxed);
            *lookups
        };
        // Still under the lock of the shard, so that no other thread can look it up in between.
        if left == 0 {
            drop_if_idle(&mut shard, ino);
        }
        left == 0
    }

    /// Returns all lookups.
    pub(crate) fn forget_all(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            for inode in shard.values() {
                let all = std::mem::take(&mut *inode.lookups.lock());
                self.lookups.fetch_sub(all, Ordering::Relaxed);
            }
            let all: Vec<Ino> = shard.keys().copied().collect();
            all.into_iter()
                .for_each(|ino| drop_if_idle(&mut shard, ino));
        }
    }

    /// Drops an inode that is not in use and has no records.
    pub(crate) fn release(&self, ino: Ino) {
        drop_if_idle(&mut self.shard(ino).lock(), ino);
    }
}

fn drop_if_idle(shard: &mut HashMap<Ino, Arc<Inode>>, ino: Ino) {
    let idle = shard.get(&ino).is_some_and(|inode| {
        // Another thread with the inode may be about to give it records.
        Arc::strong_count(inode) == 1
            && *inode.lookups.lock() == 0
            && inode.records.lock().is_empty()
    });
    if idle {
        shard.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_that_is_forgotten_while_it_is_shown_does_not_stay() {
        let inodes = Inodes::new();
        inodes.look_up(1);
        inodes.with(1, |_| assert!(inodes.forget(1, 1)));
        assert!(inodes.find(1).is_none());
        // Several users have the same one.
        inodes.with(2, |one| {
            inodes.with(2, |other| assert!(Arc::ptr_eq(one, other)));
            assert!(inodes.find(2).is_some());
        });
        assert!(inodes.find(2).is_none());
    }
}
