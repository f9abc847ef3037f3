//! Inodes in memory: their lookups, and their records that are not in the pool yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, RwLock};
use pool::{Placed, Reservation};
use vfs::Ino;

use super::workers::Pending;
use crate::buffer::Buffer;
use crate::error::Result;

const SHARDS: usize = 32;

/// An inode that is in use, or that has records in memory.
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    /// Held shared while contents are read, alone while they are changed.
    pub(crate) io: RwLock<()>,
    /// Records that were changed and are not in the pool yet. Changed under a hold only.
    pub(crate) records: Mutex<BTreeMap<u64, DirtyRecord>>,
    /// What its records take on the devices.
    pub(crate) stored: StoredCache,
    /// Given back by `forget`. Under its shard's lock.
    lookups: Mutex<u64>,
}

/// A record in memory that is newer than the pool's.
pub(crate) struct DirtyRecord {
    /// Its plaintext, as far as the file reaches.
    pub(crate) buffer: Arc<Buffer>,
    /// Where it will go.
    pub(crate) slot: u64,
    pub(crate) stage: Stage,
    /// How far it was written from its beginning on, piece after piece; 0 if in another order.
    pub(crate) run: usize,
    /// Whether it is full, by such a run. Then it is not likely to be changed or read again soon.
    pub(crate) is_streamed: bool,
    /// How often it will be stored.
    pub(crate) copies: usize,
    /// Space for it in the pool, until a transaction group takes it over.
    pub(crate) reserved: Option<Reservation>,
}

impl Inode {
    /// The contents of a record that is in memory.
    pub(crate) fn dirty(&self, record: u64) -> Option<Arc<Buffer>> {
        let records = self.records.lock();
        records.get(&record).map(|dirty| Arc::clone(&dirty.buffer))
    }
}

/// What a file takes on the devices.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// `None`: finding out would take too long.
    pub(crate) bytes: Option<u64>,
    /// Whether it stays so until the file is changed.
    pub(crate) is_settled: bool,
}

impl Found {
    /// Too much waits for a commit, or a node cannot be read now.
    pub(crate) const NOT_NOW: Found = Found {
        bytes: None,
        is_settled: false,
    };
}

/// Which state of a file is meant: the number of changes of it, and of those of all files at once.
type Version = (u64, u64);

/// What a file was last found to take on the devices, and the number of its changes.
#[derive(Default)]
pub(crate) struct StoredCache {
    changes: AtomicU64,
    found: Mutex<Option<(Version, Found)>>,
}

impl StoredCache {
    /// The records of the file are others from now on.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// What was found in this state of the file.
    pub(crate) fn found(&self, version: Version) -> Option<Found> {
        let (then, found) = (*self.found.lock())?;
        (then == version).then_some(found)
    }

    pub(crate) fn keep(&self, version: Version, found: Found) {
        *self.found.lock() = Some((version, found));
    }
}

/// How far a dirty record is on its way.
#[derive(Clone)]
pub(crate) enum Stage {
    /// It waits.
    Dirty,
    /// A worker seals it ahead of the commit.
    Sealing(Arc<SealJob>),
    /// The commit under way writes it.
    Syncing,
}

/// The work of one worker on one record.
#[derive(Default)]
pub(crate) struct SealJob {
    /// Whether a commit waits for it.
    pub(crate) frozen: AtomicBool,
    /// Whether it has begun: by a worker, or by the commit that would wait for one.
    begun: AtomicBool,
    /// Until the record is in the open transaction group, or was handed to the commit that waits.
    pub(crate) under_way: Pending,
    outcome: Mutex<Option<Result<Placed>>>,
    done: Condvar,
}

impl SealJob {
    /// Hands the outcome to the commit that waits.
    pub(crate) fn deliver(&self, outcome: Result<Placed>) {
        *self.outcome.lock() = Some(outcome);
        self.done.notify_all();
    }

    /// True once: that caller does it. A commit does not wait for a worker to come free: workers may
    /// all be waiting for it, when they write to a pool that lies on a volume of this one.
    pub(crate) fn begin(&self) -> bool {
        !self.begun.swap(true, Ordering::AcqRel)
    }

    /// Waits for the outcome.
    pub(crate) fn wait(&self) -> Result<Placed> {
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
    /// Those with dirty records, in the order in which they are written.
    pub(crate) dirty: Mutex<BTreeMap<Ino, Arc<Inode>>>,
    /// Lookups of all inodes that were not given back.
    lookups: AtomicU64,
    /// Raised when the records of any files may take another amount of space, though the files did not change.
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

    /// Shows the inode, which is in memory at least for as long. Its last user may have gone meanwhile.
    pub(crate) fn with<R>(&self, ino: Ino, look: impl FnOnce(&Arc<Inode>) -> R) -> R {
        let inode = self.get(ino);
        let seen = look(&inode);
        drop(inode);
        self.release(ino);
        seen
    }

    /// The records of any files may take another amount of space from now on, though the files did not change.
    pub(crate) fn forget_stored(&self) {
        self.all_changed.fetch_add(1, Ordering::AcqRel);
    }

    /// Which state of a file is the present one. To be asked before it is looked at.
    pub(crate) fn version_of(&self, inode: &Inode) -> Version {
        let changes = inode.stored.changes.load(Ordering::Acquire);
        (changes, self.all_changed.load(Ordering::Acquire))
    }

    /// As [`Inodes::with`], of an inode that is in memory.
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
        *inode.lookups.lock() += 1;
        self.lookups.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether anyone looks at the inode.
    pub(crate) fn is_looked_up(&self, ino: Ino) -> bool {
        self.find(ino)
            .is_some_and(|inode| *inode.lookups.lock() > 0)
    }

    /// Whether anyone looks at any inode.
    pub(crate) fn are_looked_up(&self) -> bool {
        self.lookups.load(Ordering::Relaxed) > 0
    }

    /// Gives lookups back; true if these were the last.
    pub(crate) fn forget(&self, ino: Ino, count: u64) -> bool {
        let mut shard = self.shard(ino).lock();
        let Some(inode) = shard.get(&ino) else {
            return false;
        };
        let left = {
            let mut lookups = inode.lookups.lock();
            let count = count.min(*lookups);
            *lookups -= count;
            self.lookups.fetch_sub(count, Ordering::Relaxed);
            *lookups
        };
        if left == 0 {
            drop_if_idle(&mut shard, ino);
        }
        left == 0
    }

    /// Gives all lookups back.
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
        // Another thread that has it may be about to give it records.
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
