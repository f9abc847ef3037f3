//! New names of datasets and of a pool.

use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_about};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::datasets::entry_flags::PARTIAL;
use crate::names::{NAME_MAX, check_pool_name};
use crate::ops::datasets::create::free_name;
use crate::ops::pool::Pool;
use crate::ops::snapshots::name_ranges;

impl Pool {
    /// Gives a dataset, or a snapshot within its dataset, another name.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`]; [`Error::Exists`] and
    /// [`Error::BadName`] for the new name, or a name below it that gets too long;
    /// [`Error::Refused`] if it cannot move there; [`Error::Limit`];
    /// as [`Pool::commit`].
    pub fn rename(&self, from: &str, to: &str, origin: &Origin) -> Result<()> {
        self.engine.commit_within_limits(|commit, state| {
            let entry = Arc::clone(state.find(from)?);
            if entry.parent == 0 {
                return Err(Error::Refused {
                    name: from.into(),
                    reason: "a pool is renamed by importing it under another name".into(),
                });
            }
            let (parent, last) = if entry.is_snapshot() {
                name_ranges::free_name(state, to, entry.parent)?
            } else {
                free_name(state, to)?
            };
            check_move(state, &entry, from, parent)?;
            let partial = state.partial_of(entry.parent, &entry.name).cloned();
            if let Some(partial) = partial.filter(|_| !entry.is_snapshot()) {
                if state.partial_of(parent, &last).is_some() {
                    let reason = "an interrupted receive into it waits; throw it away (receive -A)";
                    return Err(Error::refused(to, reason));
                }
                state.rename(partial.id, parent, &format!("{PARTIAL}{last}"))?;
            }
            state.rename(entry.id, parent, &last)?;
            check_name_lengths(state, entry.id, &state.pool_name())?;
            log_about(commit, state, origin, entry.guid);
            Ok(())
        })
    }

    /// Gives the pool another name.
    ///
    /// # Errors
    /// [`Error::BadName`], also for the name of a dataset that gets too long; as
    /// [`Pool::commit`].
    pub fn rename_pool(&self, name: &str, origin: &Origin) -> Result<()> {
        check_pool_name(name)?;
        self.engine.commit_with(|commit, state| {
            state.root.set_name(name);
            check_name_lengths(state, state.top()?.id, name)?;
            log(commit, state, origin, None);
            Ok(())
        })
    }

    /// Gives the pool another name as long as it is imported. The name on the devices stays.
    ///
    /// # Errors
    /// [`Error::BadName`], also for the name of a dataset that gets too long.
    pub fn name_temporarily(&self, name: &str) -> Result<()> {
        check_pool_name(name)?;
        let mut state = self.engine.state.write();
        let before = state.temporary_name.replace(name.to_owned());
        let checked = state
            .top()
            .map(|top| top.id)
            .and_then(|id| check_name_lengths(&state, id, name));
        if checked.is_err() {
            state.temporary_name = before;
        }
        checked
    }
}

/// Refuses a new name if the name of a dataset or snapshot below becomes too long, in a pool of this name.
pub(crate) fn check_name_lengths(state: &DatasetTable, id: u64, pool: &str) -> Result<()> {
    let own = state.pool_name().len();
    for entry in state.subtree(id) {
        for entry in state.snapshots(&entry).iter().chain([&entry]) {
            let name = state.name_of(entry);
            let name = format!("{pool}{}", name.get(own..).unwrap_or_default());
            if name.len() > NAME_MAX {
                return Err(Error::BadName {
                    name,
                    reason: "it is longer than 255 bytes",
                });
            }
        }
    }
    Ok(())
}

/// Refuses to move a dataset below itself, or away from its key root.
fn check_move(state: &DatasetTable, entry: &Entry, name: &str, parent: u64) -> Result<()> {
    let subtree = state.subtree(entry.id);
    if subtree.iter().any(|below| below.id == parent) {
        return Err(Error::Refused {
            name: name.into(),
            reason: "it cannot be moved below itself".into(),
        });
    }
    let inherits = entry.key_root != 0 && entry.key_root != entry.id && !entry.is_snapshot();
    if inherits && state.entry(parent)?.key_root != entry.key_root {
        return Err(Error::Refused {
            name: name.into(),
            reason: "its key is inherited from a dataset that would no longer be above it; \
                     give it a key of its own first (key change)"
                .into(),
        });
    }
    Ok(())
}
