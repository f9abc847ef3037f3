//! The pool: transaction groups, and what everything in it shares.

mod import;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

pub(crate) use import::shapes;
use meter::Histogram;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::commit::Commit;
use crate::deadlist;
use crate::dedup::{Dedup, Share};
use crate::disk::Disk;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::keyarea;
use crate::layout::{Place, RecordPtr};
use crate::log::Claims;
use crate::open::{OpenDataset, Part};
use crate::placing::Placing;
use crate::reap;
use crate::removal::Removal;
use crate::reservation::Slacks;
use crate::root::{
    FEATURE_LOG, FEATURE_LOG_PLACES, FEATURE_OWNERS, FEATURE_QUICK_LOG, FEATURE_SCATTERED,
};
use crate::space::{Extent, Reservation, Space, Turn};
use crate::state::State;

/// Nodes kept in memory: 64 MiB of them.
const CACHED_NODES: usize = 16_384;

/// Transaction groups are numbered below this.
const TXG_LIMIT: u64 = 1 << 62;

/// An imported pool.
#[derive(Clone)]
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
}

/// What the parts of a pool share.
pub(crate) struct Shared {
    pub(crate) disk: Arc<Disk>,
    pub(crate) space: Arc<Space>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) state: RwLock<State>,
    pub(crate) read_only: bool,
    /// Open datasets, by id.
    pub(crate) open: Mutex<BTreeMap<u64, Weak<OpenDataset>>>,
    /// One of them was closed.
    pub(crate) closed: Condvar,
    gate: RwLock<Gate>,
    /// Whether the open transaction group has changes.
    dirty: AtomicBool,
    committing: Mutex<()>,
    committed: Mutex<u64>,
    commit_done: Condvar,
    /// What the two transaction groups under way replaced among their own records, by parity.
    freed: [Mutex<Vec<Place>>; 2],
    /// Whether records lie in pieces.
    /// What is shared between pointers.
    pub(crate) dedup: Dedup,
    scattered: AtomicBool,
    /// Whether a dataset has a log.
    logged: AtomicBool,
    /// Whether a dataset counts what users and groups have in it.
    owners: AtomicBool,
    suspended: Mutex<Option<Suspension>>,
    /// How long commits took.
    pub(crate) commits: Histogram,
    /// Devices that failed and are not in the configuration as such yet.
    pub(crate) faults: Mutex<Faults>,
    pub(crate) placing: Placing,
    /// What reservations keep, as of a transaction group.
    pub(crate) slacks: Mutex<Option<(u64, Arc<Slacks>)>>,
    /// The removal of a group that is under way.
    pub(crate) removal: Mutex<Removal>,
    /// Set aside for writing the remap table anew.
    remap_room: Mutex<Reservation>,
    pub(crate) freeing: Turn,
    pub(crate) claims: Claims,
}

/// What failed first, and ended all changes.
struct Suspension {
    reason: String,
    /// The name of the device that failed, if it was one.
    device: Option<String>,
}

/// Changes pass here, one transaction group after the other.
struct Gate {
    txg: u64,
}

/// The right to change something in the open transaction group. While it is held the group cannot
/// close, so it must be short, and nothing that may wait for a device may happen meanwhile.
pub struct Hold<'a> {
    gate: RwLockReadGuard<'a, Gate>,
    shared: &'a Shared,
}

impl Hold<'_> {
    /// The open transaction group.
    pub fn txg(&self) -> u64 {
        self.gate.txg
    }

    /// Says that there is something to commit.
    pub fn mark_dirty(&self) {
        self.shared.dirty.store(true, Ordering::Release);
    }
}

impl Shared {
    /// Remembers the first failure. From then on nothing changes.
    pub(crate) fn suspend(&self, error: Error) -> Error {
        let mut suspended = self.suspended.lock();
        if suspended.is_none() {
            // Who commits may have it locked still.
            let name = self.state.try_read().map(|state| state.root.name());
            tracing::error!(
                %error, pool = name,
                "the pool is suspended; export it, mend the device and import it"
            );
            *suspended = Some(Suspension {
                reason: error.to_string(),
                device: error.device().map(str::to_owned),
            });
        }
        error
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.check_suspended()
    }

    /// Remembers that a record lies in pieces: the commit that first has one says so in the root.
    pub(crate) fn note_scattered(&self) {
        self.scattered.store(true, Ordering::Release);
    }

    /// Remembers that a dataset has a log, for the root as well.
    pub(crate) fn note_log(&self) {
        self.logged.store(true, Ordering::Release);
    }

    /// Remembers that there are counts of what users and groups have.
    pub(crate) fn note_owners(&self) {
        self.owners.store(true, Ordering::Release);
    }

    /// Whether records are being copied to members that lack them.
    pub(crate) fn is_resilvering(&self) -> bool {
        self.state.read().config.resilver.is_running()
    }

    /// The features that the pool requires from now on.
    pub(crate) fn features(&self) -> u64 {
        let feature = |is_used: &AtomicBool, bit| match is_used.load(Ordering::Acquire) {
            true => bit,
            false => 0,
        };
        feature(&self.scattered, FEATURE_SCATTERED)
            | feature(
                &self.logged,
                FEATURE_LOG | FEATURE_QUICK_LOG | FEATURE_LOG_PLACES,
            )
            | feature(&self.owners, FEATURE_OWNERS)
    }

    /// Frees, with its own commit, a place that the transaction group no longer wants.
    pub(crate) fn free_later(&self, txg: u64, place: &Place) {
        self.freed[(txg % 2) as usize].lock().push(*place);
    }

    /// Frees records of the open transaction group that will never be in a tree.
    pub(crate) fn forget_open(&self, records: &[RecordPtr]) {
        let gate = self.gate.read();
        for ptr in records {
            self.free_later(gate.txg, &ptr.place);
        }
        self.dirty.store(true, Ordering::Release);
    }

    /// Those of them that are shared.
    pub(crate) fn take_unshared(&self, txg: u64) -> Vec<Share> {
        let mut freed = self.freed[(txg % 2) as usize].lock();
        let shares = freed.iter().filter_map(Place::share).collect();
        freed.retain(|place| !place.is_shared());
        shares
    }

    pub(crate) fn take_freed(&self, txg: u64) -> Vec<Extent> {
        let places = std::mem::take(&mut *self.freed[(txg % 2) as usize].lock());
        let extents = places.iter().map(|place| self.disk.extents_to_free(place));
        extents.flatten().collect()
    }

    /// Commits the open transaction group, with what `task` does to the state. A task that fails
    /// leaves the state as it was; the group is committed all the same.
    pub(crate) fn commit_with<R>(
        self: &Arc<Self>,
        task: impl FnOnce(&Commit<'_>, &mut State) -> Result<R>,
    ) -> Result<R> {
        self.commit_holding(&self.lock_commits(), task)
    }

    /// The same for whoever keeps other commits from happening already.
    pub(crate) fn commit_holding<R>(
        self: &Arc<Self>,
        _committing: &MutexGuard<'_, ()>,
        task: impl FnOnce(&Commit<'_>, &mut State) -> Result<R>,
    ) -> Result<R> {
        self.check_writable()?;
        self.commit_locked(task)
    }

    fn commit_locked<R>(
        self: &Arc<Self>,
        task: impl FnOnce(&Commit<'_>, &mut State) -> Result<R>,
    ) -> Result<R> {
        let begin = self.env.elapsed();
        let _whole = Whole(self);
        let (txg, parts) = self.close_group();
        let commit = Commit::new(self, txg);
        let outcome = self.make_durable(commit, &parts, task);
        self.commits
            .record(self.env.elapsed().saturating_sub(begin));
        outcome.unwrap_or_else(|error| Err(self.suspend(error)))
    }

    /// Closes the open transaction group, of these datasets, and opens the next.
    fn close_group(&self) -> (u64, Vec<Part>) {
        let open: Vec<Arc<OpenDataset>> = {
            let open = self.open.lock();
            open.values().filter_map(Weak::upgrade).collect()
        };
        let mut gate = self.gate.write();
        // Not before: until here one may have gained its holder, or lost it, and have changed.
        let parts: Vec<Part> = open.iter().filter_map(OpenDataset::take_part).collect();
        let txg = gate.txg;
        gate.txg += 1;
        self.dirty.store(false, Ordering::Release);
        for part in &parts {
            part.freeze(txg);
        }
        (txg, parts)
    }

    /// The outer result is the commit's, the inner one the task's.
    fn make_durable<R>(
        self: &Arc<Self>,
        commit: Commit<'_>,
        parts: &[Part],
        task: impl FnOnce(&Commit<'_>, &mut State) -> Result<R>,
    ) -> Result<Result<R>> {
        let txg = commit.txg;
        let synced = commit.sync_datasets(parts)?;
        let mut state = self.state.write();
        state.txg = txg;
        for dataset in &synced {
            dataset.enter(&commit, &mut state)?;
            let id = dataset.part.dataset.id;
            deadlist::append(&commit, &mut state, id, &dataset.delta.dead)?;
            dataset.part.dataset.give_room_back();
        }
        self.enter_faults(&commit, &mut state);
        let outcome = run_task(&commit, &mut state, task);
        reap::step(&commit, &mut state)?;
        self.dedup.sync(&commit, &mut state)?;
        state.root.time = self.env.now().into();
        commit.sync_state(&mut state)?;
        commit.sync_space(&mut state)?;
        // The rest waits for devices. The state is what it will be, and may be read meanwhile.
        let state = RwLockWriteGuard::downgrade(state);
        commit.finish(&state)?;
        self.faults_entered();

        // Durable. Everyone may see it, and what it freed may be used again.
        for dataset in &synced {
            dataset.part.dataset.settle(&dataset.roots);
        }
        for holder in parts.iter().filter_map(|part| part.holder.as_ref()) {
            holder.synced(txg);
        }
        let bitmaps = state.root.bitmaps;
        let disk = &self.disk;
        disk.remap
            .settle(&disk.store, &state.root.remap, &state.config);
        self.settle_remap_room(state.root.remap_pages.get());
        let freed = commit.into_freed();
        self.space.committed(bitmaps, &freed);
        self.space.note_referenced(state.referenced());
        self.claims.settle(&self.space, &state);
        drop(state);
        keyarea::wipe(self.disk.store.as_ref(), &mut self.state.write())?;
        *self.committed.lock() = txg;
        self.commit_done.notify_all();
        self.space.discard_after(&freed);
        Ok(outcome)
    }

    /// Sets aside what a commit needs at most to write the remap table, of so many pages.
    fn settle_remap_room(&self, pages: u64) {
        let units = self.disk.store.segment_size() / store::UNIT;
        self.remap_room
            .lock()
            .set(self.disk.remap.room(pages, units));
    }

    /// Whether a commit would have anything to write.
    fn has_work(&self) -> bool {
        self.dirty.load(Ordering::Acquire) || self.has_faults() || {
            let state = self.state.read();
            !state.reap.is_empty() || state.config_dirty || !state.history_waiting.is_empty()
        }
    }
}

/// Suspends the pool if a commit panics: nobody knows how much of the transaction group it took along.
struct Whole<'a>(&'a Shared);

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let detail =
                "it panicked, which is a defect of the program; what was not committed is lost";
            self.0.suspend(Error::inconsistent("commit", detail));
        }
    }
}

fn run_task<R>(
    commit: &Commit<'_>,
    state: &mut State,
    task: impl FnOnce(&Commit<'_>, &mut State) -> Result<R>,
) -> Result<R> {
    let before = state.clone();
    let mark = commit.mark();
    let remap = &commit.shared.disk.remap;
    let remapped = remap.mark();
    let done = task(commit, state).and_then(|done| {
        check_key_roots(&before, state)?;
        Ok(done)
    });
    done.inspect_err(|_| {
        *state = before;
        commit.undo_since(&mark);
        remap.undo(remapped);
        // The keys that it wrote are nobody's. The list survives a power cut.
        let strays = commit.take_key_blocks();
        if !strays.is_empty() {
            state.config.wipe.extend(strays);
            state.config_dirty = true;
        }
    })
}

/// Refuses what leaves a dataset with keys that nothing unwraps, whatever was done to which dataset.
fn check_key_roots(before: &State, after: &State) -> Result<()> {
    if before.dirty == after.dirty {
        return Ok(());
    }
    let (had, lost) = (before.without_key_root(), after.without_key_root());
    match lost.difference(&had).next() {
        None => Ok(()),
        Some(id) => Err(Error::Refused {
            name: after.name_of(after.entry(*id)?),
            reason: "nothing above it would unwrap its keys any more".into(),
        }),
    }
}

impl Pool {
    fn assemble(
        disk: Arc<Disk>,
        space: Space,
        env: Arc<dyn Env>,
        state: State,
        claims: Claims,
        read_only: bool,
    ) -> Pool {
        let txg = state.txg;
        let dedup = Dedup::new(&state.root);
        let space = Arc::new(space);
        space.note_referenced(state.referenced());
        let remap_pages = state.root.remap_pages.get();
        let pool = Pool {
            shared: Arc::new(Shared {
                dedup,
                disk,
                removal: Mutex::new(Removal::new(space.nothing())),
                remap_room: Mutex::new(space.nothing()),
                freeing: Turn::default(),
                space,
                env,
                state: RwLock::new(state),
                read_only,
                open: Mutex::default(),
                closed: Condvar::new(),
                gate: RwLock::new(Gate { txg: txg + 1 }),
                dirty: AtomicBool::new(false),
                committing: Mutex::new(()),
                committed: Mutex::new(txg),
                commit_done: Condvar::new(),
                freed: Default::default(),
                scattered: AtomicBool::new(false),
                logged: AtomicBool::new(false),
                owners: AtomicBool::new(false),
                suspended: Mutex::default(),
                commits: Histogram::default(),
                faults: Mutex::default(),
                placing: Placing::default(),
                slacks: Mutex::default(),
                claims,
            }),
        };
        pool.shared.settle_remap_room(remap_pages);
        pool
    }

    /// Joins the open transaction group, to change something in it.
    pub fn enter(&self) -> Result<Hold<'_>> {
        self.shared.check_writable()?;
        Ok(Hold {
            gate: self.shared.gate.read(),
            shared: &self.shared,
        })
    }

    /// Returns once everything up to now is durable.
    pub fn commit(&self) -> Result<()> {
        // In this order: without work now, everything is in groups that are closed by then.
        let has_work = self.shared.has_work();
        let open = self.shared.gate.read().txg;
        let txg = if has_work { open } else { open - 1 };
        self.commit_through(txg)?;
        self.shared.check_suspended()
    }

    /// Returns once the transaction group is durable, committing it if nobody else does.
    pub fn commit_through(&self, txg: u64) -> Result<()> {
        if self.committed_txg() >= txg {
            return Ok(());
        }
        let committing = self.shared.committing.lock();
        if self.committed_txg() >= txg {
            return Ok(());
        }
        self.shared.check_writable()?;
        let result = self.shared.commit_locked(|_, _| Ok(()));
        drop(committing);
        result
    }

    /// The last transaction group that is durable.
    pub fn committed_txg(&self) -> u64 {
        *self.shared.committed.lock()
    }

    /// The pool's name.
    pub fn name(&self) -> String {
        self.shared.state.read().root.name()
    }

    /// The pool's guid.
    pub fn guid(&self) -> u64 {
        self.shared.disk.store.pool_guid()
    }
}

impl Shared {
    /// Waits for the commit under way, and keeps the next from beginning.
    pub(crate) fn lock_commits(&self) -> MutexGuard<'_, ()> {
        self.committing.lock()
    }

    pub(crate) fn suspended(&self) -> Option<String> {
        let suspended = self.suspended.lock();
        suspended.as_ref().map(|first| first.reason.clone())
    }

    /// The name of the device whose failure suspended the pool.
    pub(crate) fn suspended_by(&self) -> Option<String> {
        self.suspended.lock().as_ref()?.device.clone()
    }

    pub(crate) fn check_suspended(&self) -> Result<()> {
        match self.suspended() {
            Some(reason) => Err(Error::Suspended { reason }),
            None => Ok(()),
        }
    }
}
