//! Transaction groups: closing the open one, and making it durable.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use meter::Histogram;
use parking_lot::{Condvar, Mutex, MutexGuard};
use store::MemberState;
use zerocopy::IntoBytes;

use crate::engine::checkpoint::check_layout;
use crate::engine::closing_group::ClosingGroup;
use crate::engine::context::PoolContext;
use crate::engine::datasets::keyarea;
use crate::engine::datasets::open_dataset::{CommitDataset, OpenDataset};
use crate::engine::datasets::table::DatasetTable;
use crate::engine::devices::membership;
use crate::engine::devices::removal::Removal;
use crate::engine::follow::FollowState;
use crate::engine::frees::async_free;
use crate::engine::frees::dead_sums::DeadSums;
use crate::engine::frees::deadlist;
use crate::engine::limits::counts::CountsBefore;
use crate::engine::limits::quota;
use crate::engine::limits::reservation::Slacks;
use crate::engine::log::Claims;
use crate::engine::retention::commit_check::check_retained;
use crate::engine::sweep::Sweeps;
use crate::error::{Error, Result};
use crate::storage::core::Core;
use crate::storage::space::{FreeTurn, SpaceReservation};
use crate::storage::writer::txg::TxgWriter;

/// The part of a pool that commits. All operations of the pool use it.
pub(crate) struct CommitEngine {
    pub(crate) context: Arc<PoolContext>,
    /// Open datasets, by id.
    pub(crate) open: Mutex<BTreeMap<u64, Weak<OpenDataset>>>,
    committing: Mutex<()>,
    committed: Mutex<u64>,
    commit_done: Condvar,
    /// The duration of commits.
    pub(crate) commits: Histogram,
    /// The unused part of reservations, and the transaction group in which it was computed.
    pub(crate) slacks: Mutex<Option<(u64, Arc<Slacks>)>>,
    /// The sums of deadlists.
    pub(crate) dead_sums: DeadSums,
    /// The running removal of a group.
    pub(crate) removal: Mutex<Removal>,
    /// The work on the free space of the pool.
    pub(crate) sweeps: Sweeps,
    /// Reserved for rewriting the remap table.
    remap_reserved: Mutex<SpaceReservation>,
    pub(crate) freeing: FreeTurn,
    /// A transaction group that is written, but that the devices could not make durable yet.
    waiting: Mutex<Option<ClosingGroup>>,
    /// Held while the pool is resumed after a failure.
    pub(crate) resuming: Mutex<()>,
    pub(crate) claims: Claims,
    /// The engine that reads the checkpoint, once it was opened.
    pub(crate) kept: Mutex<Option<Arc<CommitEngine>>>,
    /// The image that follows the commits.
    pub(crate) follow: FollowState,
}

impl Deref for CommitEngine {
    type Target = PoolContext;

    fn deref(&self) -> &PoolContext {
        &self.context
    }
}

impl CommitEngine {
    /// The engine of a pool that was made or imported, with this state.
    pub(crate) fn new(
        core: Core,
        state: DatasetTable,
        claims: Claims,
        read_only: bool,
    ) -> CommitEngine {
        let txg = state.txg;
        let space = Arc::clone(&core.space);
        space.note_referenced(state.referenced());
        let remap_pages = state.root.remap_pages.get();
        let engine = CommitEngine {
            context: Arc::new(PoolContext::new(core, state, read_only)),
            open: Mutex::default(),
            committing: Mutex::new(()),
            committed: Mutex::new(txg),
            commit_done: Condvar::new(),
            commits: Histogram::default(),
            slacks: Mutex::default(),
            dead_sums: DeadSums::default(),
            removal: Mutex::new(Removal::new(space.nothing())),
            sweeps: Sweeps::default(),
            remap_reserved: Mutex::new(space.nothing()),
            freeing: FreeTurn::default(),
            waiting: Mutex::default(),
            resuming: Mutex::default(),
            claims,
            kept: Mutex::default(),
            follow: FollowState::default(),
        };
        engine.reserve_for_remap(remap_pages);
        engine
    }

    /// The last transaction group that is durable.
    pub(crate) fn committed_txg(&self) -> u64 {
        *self.committed.lock()
    }

    /// Waits for the running commit, and prevents the next one.
    pub(crate) fn lock_commits(&self) -> MutexGuard<'_, ()> {
        self.committing.lock()
    }

    /// Returns once everything up to now is durable.
    pub(crate) fn commit(self: &Arc<Self>) -> Result<()> {
        // In this order: without work now, everything is in groups that are closed by then.
        let has_work = self.has_work();
        let open = self.gate.read().txg;
        let txg = if has_work { open } else { open - 1 };
        self.commit_through(txg)?;
        self.suspension.check()
    }

    /// Returns once the transaction group is durable, committing it if no other thread does.
    pub(crate) fn commit_through(self: &Arc<Self>, txg: u64) -> Result<()> {
        if self.committed_txg() >= txg {
            return Ok(());
        }
        let committing = self.lock_commits();
        if self.committed_txg() >= txg {
            return Ok(());
        }
        self.check_writable()?;
        let result = self.commit_locked(|_, _| Ok(()));
        drop(committing);
        result
    }

    /// Commits the open transaction group, with the changes of `task` to the state. A task that fails leaves the
    /// state unchanged. The group is committed anyway.
    pub(crate) fn commit_with<R>(
        self: &Arc<Self>,
        task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
    ) -> Result<R> {
        self.commit_holding(&self.lock_commits(), task)
    }

    /// Does the same as [`CommitEngine::commit_with`]. The task also fails if its changes exceed a quota or a reservation.
    pub(crate) fn commit_within_limits<R>(
        self: &Arc<Self>,
        task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
    ) -> Result<R> {
        self.commit_within_limits_holding(&self.lock_commits(), task)
    }

    /// Does the same as [`CommitEngine::commit_within_limits`], for a caller that holds [`CommitEngine::lock_commits`].
    pub(crate) fn commit_within_limits_holding<R>(
        self: &Arc<Self>,
        committing: &MutexGuard<'_, ()>,
        task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
    ) -> Result<R> {
        self.commit_holding(committing, |commit, state| {
            let before = quota::Demand::of(state);
            let counted = CountsBefore::of(state);
            let done = task(commit, state)?;
            before.check(&commit.core.space, state)?;
            counted.check(state)?;
            Ok(done)
        })
    }

    /// Does the same as [`CommitEngine::commit_with`], for a caller that holds [`CommitEngine::lock_commits`].
    pub(crate) fn commit_holding<R>(
        self: &Arc<Self>,
        _committing: &MutexGuard<'_, ()>,
        task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
    ) -> Result<R> {
        self.check_writable()?;
        self.commit_locked(task)
    }

    pub(crate) fn commit_locked<R>(
        self: &Arc<Self>,
        task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
    ) -> Result<R> {
        let begin = self.env.elapsed();
        let _guard = SuspendOnPanic(self);
        let (txg, parts) = self.close_group();
        let commit = TxgWriter::new(&self.core, txg);
        let outcome = self
            .collect(commit, &parts, task)
            .and_then(|(closing, outcome)| {
                self.make_durable(closing)?;
                Ok(outcome)
            });
        self.commits
            .record(self.env.elapsed().saturating_sub(begin));
        outcome.unwrap_or_else(Err)
    }

    /// Closes the open transaction group for the datasets that changed in it, and opens the next group.
    fn close_group(&self) -> (u64, Vec<CommitDataset>) {
        // Dropped after the gate: closing a dataset enters the gate.
        let found: Vec<Arc<OpenDataset>>;
        let open = self.open.lock();
        let mut gate = self.gate.write();
        // Read under the gate: before, a dataset can still change, and get or lose its key holder.
        let ids = std::mem::take(&mut *self.to_visit.lock());
        let listed = ids.iter().filter_map(|id| open.get(id));
        found = listed.filter_map(Weak::upgrade).collect();
        drop(open);
        let mut parts = Vec::with_capacity(found.len());
        for dataset in &found {
            match dataset.take_part() {
                Some(part) => parts.push(part),
                // Without a key holder it takes no part in this commit.
                None => drop(self.to_visit.lock().insert(dataset.id)),
            }
        }
        // No thread is in the group now. So each change is frozen as a whole, or is in the next group as a whole.
        let txg = gate.txg;
        gate.txg += 1;
        // Under the gate: only a change of the next group can set it again.
        self.dirty.store(false, Ordering::Release);
        for part in &parts {
            part.freeze(txg);
        }
        (txg, parts)
    }

    /// Collects and writes the changes of a transaction group. The outer result is that of the commit, the inner one
    /// that of the task. After a failure of the commit, the state in memory is neither the old one nor the new one.
    fn collect<R>(
        self: &Arc<Self>,
        commit: TxgWriter<'_>,
        parts: &[CommitDataset],
        task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
    ) -> Result<(ClosingGroup, Result<R>)> {
        self.is_collecting.store(true, Ordering::Release);
        let collected = self.collect_parts(commit, parts, task);
        self.is_collecting.store(false, Ordering::Release);
        collected.map_err(|error| self.suspend_for_good(error))
    }

    fn collect_parts<R>(
        self: &Arc<Self>,
        commit: TxgWriter<'_>,
        parts: &[CommitDataset],
        task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
    ) -> Result<(ClosingGroup, Result<R>)> {
        let txg = commit.txg;
        // Before the lock of the state: the key holders read the state, and may wait for devices.
        let synced = commit.sync_datasets(parts, &self.state)?;
        let mut state = self.state.write();
        debug_assert!(txg > state.txg, "groups are committed in their order");
        state.txg = txg;
        for dataset in &synced {
            dataset.enter(&commit, &mut state)?;
            let id = dataset.part.dataset.id;
            deadlist::append(&commit, &mut state, id, &dataset.delta.dead)?;
            dataset.part.dataset.release_reserved();
        }
        // Before the task: a task that fails is undone, and this has to stay.
        self.enter_faults(&commit, &mut state);
        let devices = state.device_places();
        state.keep_time();
        let outcome = run_task(&commit, &mut state, task);
        let is_bound = commit.has_key_blocks() || state.device_places() != devices;
        // After the task, so that space of what it destroys is freed with this commit already.
        async_free::step(&commit, &mut state)?;
        // After everything that frees pointers to shared records: the table counts them.
        self.dedup.sync(&commit, &mut state)?;
        state.root.time = self.env.now().into();
        commit.sync_state(&mut state)?;
        // Last: the bitmaps have to show what all the others allocated and freed.
        commit.sync_space(&mut state)?;
        let root = state.root.clone();
        // The rest waits for devices. The state is final, and other threads can read it meanwhile.
        drop(state);
        commit.write_rest()?;
        let closing = ClosingGroup::new(commit.into_freed(), (txg, root), parts, &synced, is_bound);
        Ok((closing, outcome))
    }

    /// Makes a written transaction group durable. After a failure this can be tried again.
    pub(crate) fn make_durable(self: &Arc<Self>, closing: ClosingGroup) -> Result<()> {
        if let Err(error) = self.write_root(&closing) {
            return Err(self.wait_for_devices(closing, error));
        }
        self.faults_entered();

        // The group is durable: others may see it, and the space that it freed can be used again.
        let state = self.state.read();
        debug_assert!(
            closing.txg > self.committed_txg(),
            "groups become durable in their order"
        );
        // Before space is reused: a reader that fails looks whether its root is still the newest one.
        closing.tell_parts();
        let disk = &self.disk;
        disk.on_durable(&closing.root.remap, &state.config);
        self.reserve_for_remap(closing.root.remap_pages.get());
        // Noted before it is free: a sweep that takes such a run has to find it in the list.
        let due = self.space.note_freed(&closing.freed);
        self.space.committed(closing.root.bitmaps, &closing.freed);
        if !closing.root.has_checkpoint() {
            // Not earlier: after a power cut the last root would still need the space of the checkpoint.
            self.space.end_kept(closing.root.space());
        }
        self.unread.lock().extend(&closing.unread);
        self.space.note_referenced(state.referenced());
        self.claims.on_durable(&self.space, &state);
        let discards = state.discards();
        drop(state);
        // Only now: until here a power cut leads back to a root that needs the old keys.
        let wiped = keyarea::wipe(self.disk.store.as_ref(), &mut self.state.write());
        self.follow.note_commit(closing.root.time.get());
        // After the wipe: commands that destroy keys wait for this group.
        *self.committed.lock() = closing.txg;
        self.commit_done.notify_all();
        if discards {
            // After all others are told: devices may take long for it.
            self.space.discard_runs(due);
        }
        wiped.map_err(|error| self.suspend(error))
    }

    fn write_root(&self, closing: &ClosingGroup) -> Result<()> {
        let store = &self.disk.store;
        // Everything that the superblock points to has to reach the devices before it.
        store.order()?;
        self.check_lease()?;
        let mut root = closing.root.clone();
        {
            let state = self.state.read();
            if state.config.is_redundant {
                let get_it = [MemberState::Online, MemberState::Resilvering];
                root.missed = membership::missed(&state.config, store.as_ref(), &get_it);
            }
        }
        store.write_superblock(closing.txg, root.as_bytes())?;
        // The space that the group freed is reused soon, so its superblock has to be durable.
        store.flush()?;
        self.check_lease()
    }

    /// Called when devices fail while a transaction group becomes durable. Most groups can be made durable later.
    fn wait_for_devices(&self, closing: ClosingGroup, error: Error) -> Error {
        if closing.is_bound {
            // The command that changed devices or keys reports the failure, so the change must not come later.
            return self.suspend_for_good(error);
        }
        *self.waiting.lock() = Some(closing);
        self.suspend(error)
    }

    /// The transaction group that waits for the devices.
    pub(crate) fn take_waiting(&self) -> Option<ClosingGroup> {
        self.waiting.lock().take()
    }

    /// Reserves the most space that a commit needs to write a remap table of `pages` pages.
    fn reserve_for_remap(&self, pages: u64) {
        let units = self.disk.store.segment_size() / store::UNIT;
        self.remap_reserved
            .lock()
            .set(self.disk.remap.space(pages, units));
    }

    /// Returns whether a commit would have anything to write.
    pub(crate) fn has_work(&self) -> bool {
        self.dirty.load(Ordering::Acquire) || self.has_faults() || self.has_unread() || {
            let state = self.state.read();
            let frees = !state.async_free.is_empty() && state.frees_due(self.env.now()) > 0;
            frees || state.config_dirty || !state.history_waiting.is_empty()
        }
    }
}

/// Suspends the pool if a commit panics, because it is unknown which changes the commit had collected.
struct SuspendOnPanic<'a>(&'a CommitEngine);

impl Drop for SuspendOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let detail =
                "it panicked, which is a defect of the program; what was not committed is lost";
            self.0
                .suspend_for_good(Error::inconsistent("commit", detail));
        }
    }
}

fn run_task<R>(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    task: impl FnOnce(&TxgWriter<'_>, &mut DatasetTable) -> Result<R>,
) -> Result<R> {
    // The copy is cheap: it shares entries and names until one of them changes.
    let before = state.clone();
    let mark = commit.mark();
    let remap = &commit.core.disk.remap;
    let remapped = remap.mark();
    let done = task(commit, state).and_then(|done| {
        check_key_roots(&before, state)?;
        check_layout(&before, state)?;
        check_retained(&before, state)?;
        Ok(done)
    });
    done.inspect_err(|_| {
        *state = before;
        commit.undo_since(&mark);
        remap.undo(remapped);
        // The keys that the task wrote belong to no dataset now. The configuration lists their blocks, so they are
        // overwritten even after a power cut.
        let strays = commit.take_key_blocks();
        if !strays.is_empty() {
            state.config.wipe.extend(strays);
            state.config_dirty = true;
        }
    })
}

/// Refuses a change that leaves a dataset without a key root, so that no key would unwrap its keys.
fn check_key_roots(before: &DatasetTable, after: &DatasetTable) -> Result<()> {
    if before.dirty == after.dirty {
        return Ok(());
    }
    // Datasets that had none before the task do not make the task fail.
    let (had, lost) = (before.without_key_root(), after.without_key_root());
    match lost.difference(&had).next() {
        None => Ok(()),
        Some(id) => Err(Error::Refused {
            name: after.name_of(after.entry(*id)?),
            reason: "nothing above it would unwrap its keys any more".into(),
        }),
    }
}
