//! Clones: datasets that begin as a snapshot of another, and share its records.
//!
//! A clone's line of snapshots continues in the line of its origin. Records born up to the origin belong to the
//! origin's line. When the clone no longer uses such a record, it does not free the record but lists it in its
//! deadlist, as with other snapshots. So a promotion, which moves the older part of the line, moves no deadlist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::datasets::reseal::{Reseal, seal_anew};
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_about, log_rekey};
use crate::error::{Error, Result};
use crate::format::datasets::entry::{Entry, text_bytes};
use crate::format::superblock::features::FEATURE_CLONES;
use crate::ops::datasets::create::{NewDataset, free_name, insert};
use crate::ops::datasets::keyrings::{MakeKeyring, NewKeys};
use crate::ops::datasets::properties::check_props;
use crate::ops::pool::Pool;
use crate::storage::writer::txg::TxgWriter;

/// A clone to make.
pub struct NewClone {
    /// The guid of the clone, which never changes.
    pub guid: u64,
    /// The keyring of the clone, if its origin is encrypted.
    pub keyring: Option<MakeKeyring>,
    /// True if the keyring has its own slots. Otherwise it has the key root of its parent.
    pub is_key_root: bool,
    /// Makes its first seal; `None` if it is clear.
    pub reseal: Option<Reseal>,
    /// Properties to set.
    pub props: BTreeMap<String, String>,
    /// True if the keyring begins a new generation, for the history.
    pub is_rekeyed: bool,
    /// New keys for the dataset of its origin, in the same commit, where the clone has another wrapping key: so the key of
    /// the clone opens nothing that is written there later.
    pub rotation: Option<NewKeys>,
}

impl Pool {
    /// Makes a clone. Its parent must exist.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] if the snapshot or the parent is missing;
    /// [`Error::Exists`] and [`Error::BadName`] for the new name;
    /// [`Error::Refused`] if `snapshot` is not one, or the keys or properties do not fit, or as
    /// [`Pool::rotate_keyring`];
    /// [`Error::Inconsistent`] if `reseal` fails;
    /// [`Error::Limit`], [`Error::NoSpace`],
    /// [`Error::KeyAreaFull`]; as [`Pool::commit`].
    pub fn clone_snapshot(
        &self,
        snapshot: &str,
        name: &str,
        mut new: NewClone,
        origin: &Origin,
    ) -> Result<Arc<Entry>> {
        let committing = self.engine.lock_commits();
        let make = |commit: &TxgWriter<'_>, state: &mut DatasetTable| {
            log(commit, state, origin, None);
            let _reserved = commit.reserve_entries(3, text_bytes(&new.props))?;
            let rotation = new.rotation.take();
            let id = clone(commit, state, snapshot, name, new, origin)?;
            let owner = state.find(snapshot)?.parent;
            let rotate = |keys| self.rotate_in(commit, state, owner, keys, origin);
            let done = rotation.map(rotate).transpose()?;
            Ok((state.entry(id).cloned()?, done))
        };
        let engine = &self.engine;
        let (made, done) = engine.commit_within_limits_holding(&committing, make)?;
        if let Some(done) = done {
            done();
        }
        Ok(made)
    }

    /// Promotes a clone: its origin and the earlier snapshots move to the clone, and the other dataset becomes a
    /// clone of the origin. Those that move are no longer to be destroyed by themselves. `reseal` makes new seals for encrypted snapshots that move, because a seal covers the
    /// guid of the dataset.
    ///
    /// # Errors
    /// As [`Pool::promoted_by`]; [`Error::Inconsistent`] if `reseal` fails;
    /// [`Error::Limit`], [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn promote(&self, name: &str, reseal: Option<Reseal>, origin: &Origin) -> Result<()> {
        self.engine.commit_within_limits(|commit, state| {
            let moving = moving(state, name)?;
            let _reserved = commit.reserve_entries(moving.len() + 3, 0)?;
            let guid = state.find(name)?.guid;
            log_about(commit, state, origin, guid);
            promote(state, name, &moving, reseal)
        })
    }

    /// The snapshots that [`Pool::promote`] would give to a clone, the newest first.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`]; [`Error::Refused`] if it is
    /// not a clone, or has snapshots of the same names.
    pub fn promoted_by(&self, name: &str) -> Result<Vec<Arc<Entry>>> {
        moving(&self.engine.state.read(), name)
    }

    /// The clones of a snapshot, by name.
    pub fn clones(&self, snapshot: u64) -> Vec<String> {
        let state = self.engine.state.read();
        let clones = state.clones(snapshot).filter(|clone| !clone.is_partial());
        let mut names: Vec<String> = clones.map(|clone| state.name_of(clone)).collect();
        names.sort();
        names
    }
}

fn clone(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    snapshot: &str,
    name: &str,
    mut new: NewClone,
    origin: &Origin,
) -> Result<u64> {
    let (parent, last) = free_name(state, name)?;
    check_props(name, &new.props)?;
    let refused = |reason: &str| Error::Refused {
        name: name.into(),
        reason: reason.into(),
    };
    let from = Arc::clone(state.find(snapshot)?);
    if !from.is_snapshot() {
        return Err(Error::Refused {
            name: snapshot.into(),
            reason: "it is not a snapshot; clones are made of snapshots".into(),
        });
    }
    if (from.suite != 0) != new.keyring.is_some() {
        return Err(refused("a clone is encrypted if its origin is"));
    }
    if new.keyring.is_some() && !new.is_key_root && state.entry(parent)?.key_root == 0 {
        return Err(refused("there is no key above it to inherit"));
    }
    let kind = state.entry(from.parent)?.kind;
    new.props.extend(from.volume().map(|shape| shape.mark()));
    let dataset = NewDataset {
        kind,
        guid: new.guid,
        suite: from.suite,
        keyring: new.keyring,
        is_key_root: new.is_key_root,
        props: new.props,
    };
    let keys_txg = from.next_keys_txg(commit.txg);
    let id = insert(commit, state, dataset, (parent, &last), keys_txg)?;
    let entry = state.edit(id)?;
    if from.foreign_txg().is_some() {
        entry.set_keys_txg(keys_txg);
    }
    entry.family = from.family;
    entry.origin = from.id;
    entry.prev_snap_txg = from.created_txg;
    entry.roots = from.roots;
    entry.referenced = from.referenced;
    entry.logical = from.logical;
    entry.sequence = from.sequence;
    seal_anew(entry, &from, new.guid, &mut new.reseal)?;
    let line = format!(
        "clone {name} (id {id}) of {} (id {})",
        state.name_of(&from),
        from.id
    );
    log(commit, state, origin, Some(line));
    if new.is_rekeyed {
        log_rekey(commit, state, origin, id, Some(from.parent));
    }
    state.root.features_required |= FEATURE_CLONES;
    Ok(id)
}

/// The snapshots from a clone's origin to the first one, the newest first.
fn moving(state: &DatasetTable, name: &str) -> Result<Vec<Arc<Entry>>> {
    let clone = state.find(name)?;
    let origin = state.get(clone.origin).filter(|_| !clone.is_snapshot());
    let origin = origin.ok_or_else(|| Error::Refused {
        name: name.into(),
        reason: "it is not a clone".into(),
    })?;
    let mut all = vec![Arc::clone(origin)];
    all.extend(state.snapshots(origin));
    let taken: Vec<String> = all
        .iter()
        .map(|snapshot| format!("{name}@{}", snapshot.name))
        .filter(|name| state.find(name).is_ok())
        .collect();
    if !taken.is_empty() {
        return Err(Error::Refused {
            name: name.into(),
            reason: format!(
                "it would get snapshots of the same names as {}; rename these first",
                taken.join(", ")
            ),
        });
    }
    Ok(all)
}

fn promote(
    state: &mut DatasetTable,
    name: &str,
    moving: &[Arc<Entry>],
    mut reseal: Option<Reseal>,
) -> Result<()> {
    let clone = Arc::clone(state.find(name)?);
    let origin = Arc::clone(&moving[0]);
    let owner = Arc::clone(state.entry(origin.parent)?);
    let mut bytes = 0u64;
    for snapshot in moving {
        bytes = bytes.saturating_add(state.own_bytes(snapshot));
    }
    // The snapshots that follow in either line.
    let after = |head: &Arc<Entry>| -> Arc<Entry> {
        let snapshots = state.snapshots(head);
        let later = snapshots.into_iter().take_while(|s| s.id != origin.id);
        later.last().unwrap_or_else(|| Arc::clone(head))
    };
    let (first_of_clone, first_of_owner) = (after(&clone), after(&owner));

    for snapshot in moving {
        state.rename(snapshot.id, clone.id, &snapshot.name)?;
        let entry = state.edit(snapshot.id)?;
        entry.set_sealed_guid(None);
        entry.undefer();
        seal_anew(entry, snapshot, clone.guid, &mut reseal)?;
    }
    state.edit(origin.id)?.next = first_of_clone.id;
    state.edit(first_of_clone.id)?.prev_snap = origin.id;
    state.edit(first_of_owner.id)?.prev_snap = 0;
    let entry = state.edit(clone.id)?;
    entry.origin = owner.origin;
    entry.used = entry.used.saturating_add(bytes);
    let entry = state.edit(owner.id)?;
    entry.origin = origin.id;
    entry.used = entry.used.saturating_sub(bytes);
    // What it has passed may be where it has not been yet.
    if state.config.resilver.is_running() {
        state.config.restart_resilver();
        state.config_dirty = true;
    }
    Ok(())
}

/// Refuses to destroy snapshots that remaining clones need.
pub(crate) fn check_clones(
    state: &DatasetTable,
    snapshots: &[&Arc<Entry>],
    doomed: &BTreeSet<u64>,
) -> Result<()> {
    let clones = state
        .all()
        .filter(|entry| !entry.is_snapshot() && entry.origin != 0 && !doomed.contains(&entry.id));
    let clones: Vec<&Arc<Entry>> = clones.collect();
    let is_origin = |snapshot: &&&Arc<Entry>| clones.iter().any(|c| c.origin == snapshot.id);
    let Some(origin) = snapshots.iter().find(is_origin) else {
        return Ok(());
    };
    if clones
        .iter()
        .any(|c| c.origin == origin.id && c.is_partial())
    {
        return Err(Error::refused(
            state.name_of(origin),
            "an interrupted receive goes on from it; finish that, or throw it away (receive -A)",
        ));
    }
    let of_it = clones.iter().filter(|clone| clone.origin == origin.id);
    let names: Vec<String> = of_it.map(|clone| state.name_of(clone)).collect();
    Err(Error::HasClones {
        name: state.name_of(origin),
        clones: names.join(", "),
    })
}
