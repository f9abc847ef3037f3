//! Snapshots: earlier states of a dataset, in a line from the oldest one to the dataset itself. The line of a clone
//! continues in the line of its origin.

use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::frees::async_free;
use crate::engine::frees::deadlist;
use crate::engine::history::{Origin, log, log_internal};
use crate::error::{Error, Result};
use crate::format::datasets::entry::{DatasetKind, Entry};
use crate::format::jobs::free_job::{FreeJob, FreeTarget};
use crate::format::records::pointer::RecordPtr;
use crate::names::DatasetName;
use crate::ops::pool::Pool;
use crate::ops::snapshots::name_ranges;
use crate::storage::writer::txg::TxgWriter;

impl Pool {
    /// Makes snapshots, all at the same moment; with `recursive` also of everything below each.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`], [`Error::BadName`],
    /// [`Error::Exists`]; [`Error::Refused`] for two snapshots of
    /// one dataset; [`Error::Limit`], [`Error::NoSpace`]; as
    /// [`Pool::commit`].
    pub fn snapshot(
        &self,
        names: &[String],
        recursive: bool,
        origin: &Origin,
    ) -> Result<Vec<String>> {
        self.engine.commit_within_limits(|commit, state| {
            let mut wanted = Vec::new();
            for name in names {
                let (dataset, snapshot) = name_ranges::split(name)?;
                let head = Arc::clone(state.find(dataset)?);
                let heads = if recursive {
                    state.subtree(head.id)
                } else {
                    vec![head]
                };
                for head in heads {
                    let name = format!("{}@{snapshot}", state.name_of(&head));
                    DatasetName::parse(&name)?;
                    if state.find(&name).is_ok() || wanted.iter().any(|(_, _, n)| *n == name) {
                        return Err(Error::Exists { name });
                    }
                    if wanted.iter().any(|(id, _, _)| *id == head.id) {
                        return Err(Error::Refused {
                            name,
                            reason: "one dataset cannot have two snapshots of the same moment"
                                .into(),
                        });
                    }
                    wanted.push((head.id, snapshot.to_owned(), name));
                }
            }
            let _reserved = commit.reserve_entries(wanted.len(), 0)?;
            log(commit, state, origin, None);
            for (head, snapshot, name) in &wanted {
                let env = &commit.core.env;
                create(commit, state, *head, snapshot, (env.guid(), env.now()))?;
                let made = Arc::clone(state.find(name)?);
                log_internal(commit, state, origin, "snapshot", &made);
            }
            Ok(wanted.into_iter().map(|(_, _, name)| name).collect())
        })
    }

    /// Renames a snapshot, and those of the same name in the datasets below, all or none.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`]; [`Error::Exists`] and [`Error::BadName`] for one of the new names; [`Error::Refused`] if
    /// it is not a snapshot, or would leave its dataset; [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn rename_snapshots(&self, from: &str, to: &str, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            let entry = Arc::clone(state.find(from)?);
            if !entry.is_snapshot() {
                return Err(Error::refused(from, "it is not a snapshot"));
            }
            let (_, last) = name_ranges::free_name(state, to, entry.parent)?;
            let all = name_ranges::named(state, from, true)?;
            let _reserved = commit.reserve_entries(all.len(), all.len() * last.len())?;
            for snapshot in &all {
                name_ranges::free_name(state, &format!("@{last}"), snapshot.parent)?;
                state.rename(snapshot.id, snapshot.parent, &last)?;
            }
            log(commit, state, origin, None);
            Ok(())
        })
    }
}

/// Makes a snapshot of a dataset as the commit leaves it. The snapshot is retained if the property of the dataset says so.
pub(crate) fn create(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    head: u64,
    name: &str,
    (guid, created): (u64, u64),
) -> Result<()> {
    let id = state.new_id();
    let head = state.edit(head)?;
    let mut snapshot = Entry {
        id,
        guid,
        parent: head.id,
        name: name.into(),
        kind: DatasetKind::Snapshot,
        created_txg: commit.txg,
        created,
        keyring: None,
        next: head.id,
        used: 0,
        origin: 0,
        sequence_past: 0,
        log: head.log.without_chunks(),
        props: Default::default(),
        ..head.clone()
    };
    snapshot.copy_marks(head);
    let before = head.prev_snap;
    head.prev_snap = id;
    head.prev_snap_txg = commit.txg;
    head.deadlist = RecordPtr::EMPTY;
    head.dead_bytes = 0;
    let head = head.id;
    state.insert(snapshot);
    if before != 0 {
        state.edit(before)?.next = id;
    }
    state.retain_new(id, head)
}

/// Destroys a snapshot: what only it had is freed, the rest of its deadlist goes to its successor.
pub(crate) fn destroy(commit: &TxgWriter<'_>, state: &mut DatasetTable, id: u64) -> Result<()> {
    let snapshot = state
        .remove(id)
        .ok_or_else(|| Error::inconsistent("dataset table", "a snapshot vanished"))?;
    let next = Arc::clone(state.entry(snapshot.next)?);

    // Born since the snapshot before, dead before the next one: no other snapshot has these.
    let (mut deadlist, only_here) = deadlist::take(commit, &next.deadlist, id)?;
    let freed = only_here.as_ref().map_or(0, deadlist::Sublist::bytes);
    async_free::enqueue(
        state,
        only_here.map(|sublist| FreeJob::new(FreeTarget::DeadRecords, sublist.root)),
    );
    let mut dead_bytes = next.dead_bytes - freed.min(next.dead_bytes);
    for (older, sublist) in deadlist::dissolve(commit, &snapshot.deadlist)? {
        deadlist = deadlist::merge(commit, &deadlist, older, &sublist)?;
        dead_bytes = dead_bytes.saturating_add(sublist.bytes());
    }
    let edited = state.edit(next.id)?;
    edited.deadlist = deadlist;
    edited.dead_bytes = dead_bytes;
    edited.prev_snap = snapshot.prev_snap;
    edited.prev_snap_txg = snapshot.prev_snap_txg;
    if snapshot.prev_snap != 0 {
        state.edit(snapshot.prev_snap)?.next = next.id;
    }
    let head = state.edit(snapshot.parent)?;
    head.used = head.used.saturating_sub(freed);
    pass_on(commit, state, &snapshot, &next)
}

/// Later deadlists, also those of clones, keep things for the destroyed snapshot: its successor has them
/// too. A clone of the snapshot itself, which would have another successor, there is none.
fn pass_on(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    gone: &Entry,
    successor: &Entry,
) -> Result<()> {
    let is_later = |entry: &&Arc<Entry>| {
        entry.family == gone.family
            && entry.id != successor.id
            && !entry.deadlist.is_empty()
            && (!entry.is_snapshot() || entry.created_txg > gone.created_txg)
    };
    let later: Vec<Arc<Entry>> = state.all().filter(is_later).cloned().collect();
    for later in later {
        let (deadlist, kept) = deadlist::take(commit, &later.deadlist, gone.id)?;
        if let Some(sublist) = kept {
            let deadlist = deadlist::merge(commit, &deadlist, successor.id, &sublist)?;
            state.edit(later.id)?.deadlist = deadlist;
        }
    }
    Ok(())
}

/// Gives a dataset the state of its newest snapshot.
pub(crate) fn roll_back(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    head: u64,
    target: &Entry,
) -> Result<()> {
    let head = state.edit(head)?;
    head.forget_bookmarks_after(target.created_txg);
    let old = head.clone();
    // What was born since the snapshot goes; what died since is alive again.
    let shared = target.referenced - old.dead_bytes.min(target.referenced);
    head.used = head
        .used
        .saturating_sub(old.referenced.saturating_sub(shared));
    head.roots = target.roots;
    head.referenced = target.referenced;
    head.logical = target.logical;
    // The snapshot's seal is over its own sequence; the next seal gets one that no state has had.
    head.sequence_past = old.sequence.max(old.sequence_past);
    head.sequence = target.sequence;
    head.seal = target.seal;
    head.set_sealed_guid(target.sealed_mark());
    head.set_volume(target.volume());
    head.set_waiting_mark(target.waiting_mark());
    head.set_facts_mark(target.facts_mark());
    // What was logged came after the snapshot.
    commit.free_extents(old.log.extents());
    head.log = target.log.clone();
    head.deadlist = RecordPtr::EMPTY;
    head.dead_bytes = 0;
    let min_birth = target.created_txg;
    let trees = old
        .roots
        .map(|root| FreeJob::new(FreeTarget::Tree { min_birth }, root));
    let lists = deadlist::dissolve(commit, &old.deadlist)?
        .into_iter()
        .map(|(_, sublist)| FreeJob::new(FreeTarget::ListOnly, sublist.root));
    async_free::enqueue(state, trees.into_iter().chain(lists));
    Ok(())
}
