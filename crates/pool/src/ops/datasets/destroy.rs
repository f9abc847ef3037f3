//! Destroys datasets and snapshots: finds all that must go too, the order, and the obstacles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::datasets::keyarea;
use crate::engine::datasets::table::{DatasetTable, head_id};
use crate::engine::frees::async_free;
use crate::engine::frees::deadlist;
use crate::engine::history::{Origin, log, log_internal};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::jobs::free_job::{FreeJob, FreeTarget};
use crate::ops::datasets::clones::check_clones;
use crate::ops::pool::Pool;
use crate::ops::snapshots::holds;
use crate::ops::snapshots::name_ranges;
use crate::ops::snapshots::snapshot;
use crate::storage::writer::txg::TxgWriter;

/// The datasets and snapshots that are destroyed besides the named one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// No others.
    #[default]
    Named,
    /// The snapshots of a dataset and everything below it; for a snapshot, those of the same name below.
    Below,
    /// The same as `Below`, and every clone of what is destroyed, with everything below the clone.
    Clones,
}

impl From<bool> for Reach {
    /// Converts a flag that says whether everything below is destroyed too.
    fn from(recursive: bool) -> Reach {
        match recursive {
            true => Reach::Below,
            false => Reach::Named,
        }
    }
}

impl Pool {
    /// The names that [`Pool::destroy_dataset`] would destroy.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`];
    /// [`Error::HasDependents`], [`Error::HasClones`] for
    /// what `reach` does not include; [`Error::Held`];
    /// [`Error::Refused`] for the root of the pool.
    pub fn doomed(&self, name: &str, reach: impl Into<Reach>) -> Result<Vec<Arc<Entry>>> {
        let mut doomed = doomed(&self.engine.state.read(), name, reach.into())?;
        doomed.retain(|entry| !entry.is_partial());
        Ok(doomed)
    }

    /// Destroys a dataset, or the snapshots that a name like `a/b@s`, `a/b@s%t` or `a/b@s,t` stands for.
    /// Returns the names of all that went.
    ///
    /// # Errors
    /// As [`Pool::doomed`]; [`Error::Busy`] if one of them is open;
    /// [`Error::Damaged`] if a list of freed records cannot be read; as [`Pool::commit`].
    pub fn destroy_dataset(
        &self,
        name: &str,
        reach: impl Into<Reach>,
        origin: &Origin,
    ) -> Result<Vec<String>> {
        let reach = reach.into();
        self.engine.commit_with(|commit, state| {
            let doomed = doomed(state, name, reach)?;
            self.engine.check_closed(state, &doomed)?;
            log(commit, state, origin, None);
            let freed = holds::freed_by(state, &doomed);
            let mut names = destroy_all(commit, state, &doomed, origin)?;
            names.extend(holds::destroy_due(self, commit, state, &freed, origin)?);
            Ok(names)
        })
    }
}

/// Destroys what nothing needs any more, in this order. Returns the names.
pub(crate) fn destroy_all(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    doomed: &[Arc<Entry>],
    origin: &Origin,
) -> Result<Vec<String>> {
    let seen = doomed.iter().filter(|entry| !entry.is_partial());
    let names = seen.map(|entry| state.name_of(entry)).collect();
    for entry in doomed {
        log_internal(commit, state, origin, "destroy", entry);
    }
    for entry in doomed {
        if entry.is_snapshot() {
            snapshot::destroy(commit, state, entry.id)?;
        } else {
            destroy_head(commit, state, entry.id)?;
        }
    }
    Ok(names)
}

/// Returns everything to destroy for a name, in order: clones before their origins, snapshots before their datasets.
fn doomed(state: &DatasetTable, name: &str, reach: Reach) -> Result<Vec<Arc<Entry>>> {
    let all = match name.contains('@') {
        true => name_ranges::named(state, name, reach >= Reach::Below)?,
        false => with_dataset(state, name, reach)?,
    };
    with_clones(state, all, reach)
}

/// Returns what [`doomed`] returns, and the snapshots that wait to be destroyed and go with their last clones.
pub(crate) fn with_due(state: &DatasetTable, name: &str, reach: Reach) -> Result<Vec<Arc<Entry>>> {
    let mut all = doomed(state, name, reach)?;
    let due = holds::freed_by(state, &all).into_iter();
    all.extend(due.filter_map(|id| state.get(id).cloned()));
    Ok(all)
}

/// Returns everything to destroy, with [`Reach::Clones`] and its clones, in order. Refuses what something else needs.
pub(crate) fn with_clones(
    state: &DatasetTable,
    mut all: Vec<Arc<Entry>>,
    reach: Reach,
) -> Result<Vec<Arc<Entry>>> {
    if reach == Reach::Clones {
        add_clones(state, &mut all)?;
    }
    let snapshots: Vec<&Arc<Entry>> = all.iter().filter(|entry| entry.is_snapshot()).collect();
    for snapshot in &snapshots {
        holds::check(state, snapshot)?;
    }
    let ids = all.iter().map(|entry| entry.id).collect();
    check_clones(state, &snapshots, &ids)?;
    Ok(in_order(state, all))
}

/// A dataset, and what goes with it.
fn with_dataset(state: &DatasetTable, name: &str, reach: Reach) -> Result<Vec<Arc<Entry>>> {
    let entry = state.find(name)?;
    let dependents = |what| Error::HasDependents {
        name: name.into(),
        what,
    };
    check_not_top(state, entry)?;
    if reach == Reach::Named {
        if state.children(entry.id).next().is_some() {
            return Err(dependents("datasets below it"));
        }
        if entry.prev_snap != 0 {
            return Err(dependents("snapshots"));
        }
    }
    Ok(with_everything(state, entry.id))
}

fn check_not_top(state: &DatasetTable, entry: &Entry) -> Result<()> {
    match entry.parent {
        0 => Err(Error::Refused {
            name: state.name_of(entry),
            reason: "it is the root of its pool; use 'pool destroy'".into(),
        }),
        _ => Ok(()),
    }
}

/// A dataset with its snapshots and everything below it.
fn with_everything(state: &DatasetTable, id: u64) -> Vec<Arc<Entry>> {
    let heads = state.subtree(id).into_iter().rev();
    heads
        .flat_map(|head| {
            let mut all: Vec<Arc<Entry>> = state.partials(head.id).cloned().collect();
            let beside = state.partial_of(head.parent, &head.name);
            all.extend(beside.filter(|_| head.id == id).cloned());
            all.extend(state.snapshots(&head));
            all.push(head);
            all
        })
        .collect()
}

/// Adds the clones of destroyed snapshots, and their clones.
fn add_clones(state: &DatasetTable, all: &mut Vec<Arc<Entry>>) -> Result<()> {
    let mut known: BTreeSet<u64> = all.iter().map(|entry| entry.id).collect();
    let mut next = 0;
    while next < all.len() {
        let clones: Vec<Arc<Entry>> = state.clones(all[next].id).cloned().collect();
        for clone in clones {
            check_not_top(state, &clone)?;
            let more = with_everything(state, clone.id).into_iter();
            all.extend(more.filter(|entry| known.insert(entry.id)));
        }
        next += 1;
    }
    Ok(())
}

fn in_order(state: &DatasetTable, all: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    let mut by_head: BTreeMap<u64, Vec<Arc<Entry>>> = BTreeMap::new();
    let mut heads = Vec::new();
    for entry in all {
        let head = head_id(&entry);
        if !by_head.contains_key(&head) {
            heads.push(head);
        }
        by_head.entry(head).or_default().push(entry);
    }
    // Stable, so that what has no clones goes in the order in which it was found.
    heads.sort_by_key(|head| std::cmp::Reverse(state.origins(*head)));
    let mut ordered = Vec::new();
    for head in heads {
        let mut entries = by_head.remove(&head).unwrap_or_default();
        entries.sort_by_key(|entry| (!entry.is_snapshot(), entry.created_txg));
        ordered.extend(entries);
    }
    ordered
}

/// Destroys a dataset that has no snapshots.
pub(crate) fn destroy_head(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    id: u64,
) -> Result<()> {
    let entry = state
        .remove(id)
        .ok_or_else(|| Error::inconsistent("dataset table", "a dataset vanished"))?;
    let min_birth = entry.prev_snap_txg;
    let lists = deadlist::dissolve(commit, &entry.deadlist)?;
    let trees = entry
        .roots
        .map(|root| FreeJob::new(FreeTarget::Tree { min_birth }, root));
    let lists = lists
        .into_iter()
        .map(|(_, sublist)| FreeJob::new(FreeTarget::ListOnly, sublist.root));
    async_free::enqueue(state, trees.into_iter().chain(lists));
    commit.free_extents(entry.log.extents());
    keyarea::discard(state, entry.keyring.clone());
    Ok(())
}
