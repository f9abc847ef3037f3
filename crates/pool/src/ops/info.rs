//! Information about a pool, for commands and properties.

use crate::engine::gate::CommitEngine;
use std::ops::ControlFlow;
use std::sync::Arc;

use meter::{CacheTotals, Times};

use crate::engine::datasets::table::DatasetTable;
use crate::engine::frees::deadlist;
use crate::engine::history::{self, HistoryChain};
use crate::engine::limits::reservation::{received_into, taken_by};
use crate::error::{Result, SuspensionEnd};
use crate::format::datasets::entry::Entry;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::features::{FEATURES, Feature};
use crate::format::superblock::history_line::HistoryLine;
use crate::format::superblock::root::{DedupInfo, Host, PoolRoot, PoolState};
use crate::ops::pool::Pool;
use crate::storage::array::walk;
use crate::storage::space::{ReserveFor, SpaceReservation};

/// The records that are shown while commits wait.
pub(crate) const PIECE: usize = 8192;

/// A dataset or snapshot, and its counters.
#[derive(Clone, Debug)]
pub struct DatasetListing {
    /// The whole name of the dataset or snapshot.
    pub name: String,
    /// The entry of the dataset or snapshot.
    pub entry: Arc<Entry>,
    /// Bytes on disk that it, its snapshots and everything below it take, with what is reserved in it; of a
    /// snapshot, what only it has.
    pub used: u64,
    /// The part of `used` that is data of the dataset, without what its origin has: the bytes that destroying the
    /// dataset frees after its snapshots were destroyed.
    pub used_by_dataset: u64,
    /// The part of `used` that only its snapshots have: the bytes that destroying all of them frees.
    pub used_by_snapshots: u64,
    /// The part of `used` that the datasets below it take, and an interrupted receive into it.
    pub used_by_children: u64,
    /// The part of `used` that its `refreservation` keeps for it.
    pub used_by_refreservation: u64,
    /// Bytes of the data in it that the snapshot before it does not have.
    pub written: u64,
}

impl DatasetListing {
    pub(crate) fn uncounted(state: &DatasetTable, entry: &Arc<Entry>) -> DatasetListing {
        DatasetListing {
            name: state.name_of(entry),
            entry: Arc::clone(entry),
            used: 0,
            used_by_dataset: 0,
            used_by_snapshots: 0,
            used_by_children: 0,
            used_by_refreservation: 0,
            written: 0,
        }
    }
}

/// The space of a pool, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceInfo {
    /// For records, in all.
    pub total: u64,
    /// Free bytes.
    pub free: u64,
    /// The bytes that an ordinary write may still use.
    pub available: u64,
    /// The bytes that jobs of destroyed datasets can free now.
    pub freeing: usize,
    /// Jobs that wait, because a device fails to read what they need.
    pub freeing_waits: usize,
}

/// The contents of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The transaction group of the superblock.
    pub txg: u64,
    /// The time when the superblock was written, in seconds since 1970.
    pub time: u64,
    /// The time when the pool was created.
    pub created: u64,
    /// The state of the pool.
    pub state: PoolState,
    /// The name of the pool.
    pub name: String,
    /// The host that has it, or had it last.
    pub host: Host,
    /// The root of the dataset table.
    pub datasets: RecordPtr,
    /// The record of the checkpoint; empty if there is none.
    pub checkpoint: RecordPtr,
    /// The latest end of a retention in the pool, if the time of the pool has not reached it.
    pub retained_until: Option<u64>,
    /// The time of the pool, if the pool keeps it; else 0.
    pub pool_time: u64,
}

impl SpaceInfo {
    /// The space of the pool with this engine.
    pub(crate) fn of(engine: &CommitEngine) -> SpaceInfo {
        let space = &engine.space;
        let (jobs, freeing) = {
            let state = engine.state.read();
            let jobs = state.async_free.len();
            let due = match jobs {
                0 => 0,
                _ => state.frees_due(engine.env.now()),
            };
            (jobs, due)
        };
        SpaceInfo {
            total: space.total().usual,
            free: space.free().usual,
            available: space.available_bytes(),
            freeing: freeing + usize::from(engine.has_unread()),
            freeing_waits: jobs - freeing,
        }
    }
}

impl Superblock {
    /// Reads the payload of a superblock.
    ///
    /// # Errors
    /// [`Error::UnknownFeatures`](crate::Error::UnknownFeatures);
    /// [`Error::Inconsistent`](crate::Error::Inconsistent) if it is not a superblock's payload.
    pub fn decode(txg: u64, payload: &[u8]) -> Result<Superblock> {
        let root = PoolRoot::decode(payload)?;
        Ok(Superblock {
            txg,
            time: root.time.get(),
            created: root.created.get(),
            state: root.state().unwrap_or(PoolState::Active),
            name: root.name(),
            host: root.last_host(),
            datasets: root.datasets,
            checkpoint: match root.ends_checkpoint() {
                true => RecordPtr::EMPTY,
                false => root.checkpoint,
            },
            retained_until: match root.retained_until.get() {
                until if until > root.pool_time.get() => Some(until),
                _ => None,
            },
            pool_time: root.pool_time.get(),
        })
    }
}

impl Pool {
    /// The entry with a name.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`](crate::Error::NoSuchDataset) and [`Error::BadName`](crate::Error::BadName).
    pub fn find(&self, name: &str) -> Result<Arc<Entry>> {
        self.engine.state.read().find(name).cloned()
    }

    /// The entry with an id.
    ///
    /// # Errors
    /// [`Error::Inconsistent`](crate::Error::Inconsistent) if the id is unknown.
    pub fn entry(&self, id: u64) -> Result<Arc<Entry>> {
        self.engine.state.read().entry(id).cloned()
    }

    /// The whole name of the entry with an id.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn name_of(&self, id: u64) -> Result<String> {
        let state = self.engine.state.read();
        Ok(state.name_of(state.entry(id)?))
    }

    /// The value of a property and the dataset that sets it: this one, or the nearest above.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn property(&self, id: u64, key: &str) -> Result<Option<(String, u64)>> {
        let state = self.engine.state.read();
        let found = state.effective(state.entry(id)?, key);
        Ok(found.map(|(value, id)| (value.clone(), id)))
    }

    /// A dataset and everything below it, parents before children, each followed by its snapshots
    /// from the oldest.
    ///
    /// # Errors
    /// As [`Pool::entry`]; [`Error::Damaged`](crate::Error::Damaged) if the list of what a snapshot alone holds
    /// cannot be read.
    pub fn list(&self, id: u64) -> Result<Vec<DatasetListing>> {
        self.read_deadlists_of_clones(id)?;
        self.list_now(id)
    }

    fn list_now(&self, id: u64) -> Result<Vec<DatasetListing>> {
        let state = self.engine.state.read();
        let entry = state.entry(id)?;
        if entry.is_snapshot() {
            return Ok(vec![self.listed(&state, entry)?]);
        }
        let mut all = Vec::new();
        for dataset in state.subtree(id) {
            all.push(self.listed(&state, &dataset)?);
            for snapshot in state.snapshots(&dataset).iter().rev() {
                all.push(self.listed(&state, snapshot)?);
            }
        }
        Ok(all)
    }

    /// All datasets, parents before children, without snapshots.
    ///
    /// # Errors
    /// As [`Pool::top`].
    pub fn datasets(&self) -> Result<Vec<Arc<Entry>>> {
        let state = self.engine.state.read();
        Ok(state.subtree(state.top()?.id))
    }

    /// Returns the same as [`Pool::list`], but without counters. It reads no device.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn list_uncounted(&self, id: u64) -> Result<Vec<DatasetListing>> {
        let state = self.engine.state.read();
        let entry = state.entry(id)?;
        let heads = match entry.is_snapshot() {
            true => vec![Arc::clone(entry)],
            false => state.subtree(id),
        };
        let mut all = Vec::new();
        for head in &heads {
            all.push(DatasetListing::uncounted(&state, head));
            if !head.is_snapshot() {
                let snapshots = state.snapshots(head).into_iter().rev();
                all.extend(snapshots.map(|snapshot| DatasetListing::uncounted(&state, &snapshot)));
            }
        }
        Ok(all)
    }

    /// Returns the same as [`Pool::list`], in the state of the last durable transaction group. Returns its number too.
    /// A commit that is under way may still fail, and is left out.
    ///
    /// # Errors
    /// [`Error::Suspended`](crate::Error::Suspended); as [`Pool::list`].
    pub fn list_durable(&self, id: u64) -> Result<(u64, Vec<DatasetListing>)> {
        self.read_deadlists_of_clones(id)?;
        let _committing = self.engine.lock_commits();
        self.engine.suspension.check()?;
        Ok((self.committed_txg(), self.list_now(id)?))
    }

    /// Returns the entries of these datasets that exist, as of the last durable commit. None in a suspended pool.
    pub fn durable_entries(&self, ids: &[u64]) -> Vec<Arc<Entry>> {
        let _committing = self.engine.lock_commits();
        if self.engine.suspension.check().is_err() {
            return Vec::new();
        }
        let state = self.engine.state.read();
        let entries = ids.iter().filter_map(|id| state.get(*id));
        entries.map(Arc::clone).collect()
    }

    /// Returns a dataset or snapshot with its counts.
    ///
    /// # Errors
    /// As [`Pool::list`].
    pub fn listed_one(&self, id: u64) -> Result<DatasetListing> {
        let state = self.engine.state.read();
        self.listed(&state, state.entry(id)?)
    }

    fn listed(&self, state: &DatasetTable, entry: &Arc<Entry>) -> Result<DatasetListing> {
        let mut listed = DatasetListing::uncounted(state, entry);
        listed.written = state.own_bytes(entry);
        if entry.is_snapshot() {
            let next = state.entry(entry.next)?;
            let own = deadlist::sublist(&self.engine.disk, &next.deadlist, entry.id)?;
            listed.used = own.bytes();
            return Ok(listed);
        }
        listed.used_by_dataset = self.used_by_head(state, entry)?;
        listed.used_by_snapshots = entry.used.saturating_sub(listed.used_by_dataset);
        let slacks = self.slacks(state);
        listed.used_by_children = received_into(state, entry);
        for below in state.subtree(entry.id) {
            let mut used = taken_by(state, &below);
            if below.id == entry.id {
                used = used.saturating_sub(below.used);
            } else {
                used = used.saturating_add(slacks.itself(below.id));
                used = used.saturating_add(slacks.below(below.id));
            }
            listed.used_by_children = listed.used_by_children.saturating_add(used);
        }
        listed.used_by_refreservation = slacks.itself(entry.id);
        listed.used = entry
            .used
            .saturating_add(listed.used_by_children)
            .saturating_add(listed.used_by_refreservation);
        Ok(listed)
    }

    /// A dataset and the datasets below it, without snapshots; nothing for a snapshot. It reads no device.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn datasets_below(&self, id: u64) -> Result<Vec<Arc<Entry>>> {
        let state = self.engine.state.read();
        match state.entry(id)?.is_snapshot() {
            true => Ok(Vec::new()),
            false => Ok(state.subtree(id)),
        }
    }

    /// The ids of the snapshots of a dataset and their names, from the oldest.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn snapshots(&self, id: u64) -> Result<Vec<Arc<Entry>>> {
        let state = self.engine.state.read();
        let mut all = state.snapshots(state.entry(id)?);
        all.reverse();
        Ok(all)
    }

    /// Shows the records of an array of a dataset, in the order of their slots.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Inconsistent`](crate::Error::Inconsistent) if a
    /// node cannot be read; [`Error::Store`](crate::Error::Store) if a device fails.
    pub fn each_record(
        &self,
        root: &RecordPtr,
        each: &mut dyn FnMut(u64, &RecordPtr) -> ControlFlow<()>,
    ) -> Result<()> {
        let _committing = self.engine.lock_commits();
        let visited = walk::visit(&self.engine.disk, root, 0, 0, &mut |visit| {
            Ok(match visit {
                walk::Visit::Record(slot, ptr) => each(slot, ptr),
                walk::Visit::Node(..) => ControlFlow::Continue(()),
            })
        });
        visited.map(|_| ())
    }

    /// Shows the records of an array of a dataset or snapshot as its last commits left it, in pieces.
    /// `between` is called before each; commits can happen then.
    ///
    /// # Errors
    /// What `between` returns; as [`Pool::entry`] and [`Pool::each_record`].
    pub fn each_record_of(
        &self,
        id: u64,
        array: ArrayKind,
        each: &mut dyn FnMut(&RecordPtr),
        between: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut from = 0;
        loop {
            between()?;
            let _committing = self.engine.lock_commits();
            let root = self.entry(id)?.roots[array as usize];
            let mut left = PIECE;
            let stopped = walk::visit(&self.engine.disk, &root, from, 0, &mut |visit| {
                if let walk::Visit::Record(slot, ptr) = visit {
                    if left == 0 {
                        return Ok(ControlFlow::Break(slot));
                    }
                    left -= 1;
                    each(ptr);
                }
                Ok(ControlFlow::Continue(()))
            })?;
            match stopped {
                ControlFlow::Break(slot) => from = slot,
                ControlFlow::Continue(()) => return Ok(()),
            }
        }
    }

    /// The root dataset.
    ///
    /// # Errors
    /// [`Error::Inconsistent`](crate::Error::Inconsistent) if the pool has no root dataset.
    pub fn top(&self) -> Result<Arc<Entry>> {
        self.engine.state.read().top().cloned()
    }

    /// The time, in seconds since 1970, by the clock of the pool.
    pub fn now(&self) -> u64 {
        self.engine.env.now()
    }

    /// The space of the pool.
    pub fn space(&self) -> SpaceInfo {
        SpaceInfo::of(&self.engine)
    }

    /// The savings of dedup, as of the last commit.
    pub fn dedup_info(&self) -> DedupInfo {
        self.engine.state.read().root.dedup_info()
    }

    /// Says that a dataset counts what users and groups have in it: the pool needs programs that do, from the next
    /// commit on.
    pub fn note_owners(&self) {
        self.engine.note_owners();
    }

    /// Says that files in a dataset have flags that forbid changes: the pool needs programs that obey them, from the
    /// next commit on.
    pub fn note_file_flags(&self) {
        self.engine.note_file_flags();
    }

    /// Notes that an open dataset has a history of its seals, which programs without it would not go on with. The next
    /// commit stores this in the superblock.
    pub fn note_seal_history(&self) {
        self.engine.note_seal_history();
    }

    /// Reserves bytes for a write that comes soon.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) if fewer are free for this purpose.
    pub fn reserve(&self, bytes: u64, why: ReserveFor) -> Result<SpaceReservation> {
        self.engine.space.reserve(bytes, why)
    }

    /// The newest superblock as it is in memory.
    pub fn superblock(&self) -> Superblock {
        let state = self.engine.state.read();
        Superblock {
            txg: state.txg,
            time: state.root.time.get(),
            created: state.root.created.get(),
            state: state.root.state().unwrap_or(PoolState::Active),
            name: state.root.name(),
            host: state.root.last_host(),
            datasets: state.root.datasets,
            checkpoint: state.root.checkpoint,
            retained_until: state.retained_until(),
            pool_time: state.root.pool_time.get(),
        }
    }

    /// Every known feature, and whether this pool has it.
    pub fn features(&self) -> Vec<(&'static Feature, bool)> {
        let active = self.engine.state.read().root.features_required.get();
        let features = FEATURES.iter();
        features
            .map(|feature| (feature, active & feature.bit != 0))
            .collect()
    }

    /// The history, the oldest line first.
    ///
    /// # Errors
    /// As [`Pool::each_record`].
    pub fn history(&self) -> Result<Vec<HistoryLine>> {
        let lines = self.history_chain()?.lines.into_iter();
        Ok(lines.map(|chained| chained.line).collect())
    }

    /// The history, with its chain of hashes.
    ///
    /// # Errors
    /// As [`Pool::each_record`].
    pub fn history_chain(&self) -> Result<HistoryChain> {
        let _committing = self.engine.lock_commits();
        let state = self.engine.state.read();
        let (root, last) = (state.root.history, state.root.history_slot.get());
        drop(state);
        history::read(&self.engine.disk, &root, last)
    }

    /// Returns how long commits took since the import.
    pub fn commits(&self) -> Times {
        self.engine.commits.totals()
    }

    /// The cache of nodes, for metrics.
    pub fn node_cache(&self) -> CacheTotals {
        self.engine.disk.node_cache()
    }

    /// Returns why the pool accepts no changes, if a device failed.
    pub fn suspended(&self) -> Option<String> {
        self.engine.suspension.now().map(|(reason, _)| reason)
    }

    /// Returns the event that ends the suspension.
    pub fn suspended_until(&self) -> Option<SuspensionEnd> {
        self.engine.suspension.now().map(|(_, until)| until)
    }

    /// Fails if nothing can be changed: the pool is suspended, or was imported read-only.
    ///
    /// # Errors
    /// [`Error::Suspended`](crate::Error::Suspended) and [`Error::ReadOnly`](crate::Error::ReadOnly).
    pub fn check_writable(&self) -> Result<()> {
        self.engine.check_writable()
    }

    /// Returns whether the pool was imported read-only.
    pub fn is_read_only(&self) -> bool {
        self.engine.read_only
    }
}
