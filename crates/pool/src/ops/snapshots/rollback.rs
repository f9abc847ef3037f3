//! Takes a dataset back to a snapshot, and destroys what came later.

use std::sync::Arc;

use crate::engine::datasets::reseal::{Reseal, seal_again};
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log_about, log_internal};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::ops::datasets::destroy::{Reach, destroy_all, with_clones};
use crate::ops::pool::Pool;
use crate::ops::snapshots::bookmarks;
use crate::ops::snapshots::holds;
use crate::ops::snapshots::snapshot::roll_back;

impl Pool {
    /// Takes a dataset back to a snapshot. Later snapshots must not exist, or be within `reach`: [`Reach::Below`] is
    /// later snapshots, and [`Reach::Clones`] their clones too. The dataset must not be open. It has the seal of the
    /// snapshot then. Returns the names of what was destroyed.
    ///
    /// # Errors
    /// As [`Pool::doomed_by_rollback`]; [`Error::Busy`] if the dataset, or something to destroy, is open; as
    /// [`Pool::commit`].
    pub fn rollback(
        &self,
        name: &str,
        reach: impl Into<Reach>,
        origin: &Origin,
    ) -> Result<Vec<String>> {
        self.take_back(name, reach.into(), None, origin)
    }

    /// Does the same as [`Pool::rollback`], and gives the dataset a seal of its own over that state, made by `accept`.
    ///
    /// # Errors
    /// As [`Pool::rollback`]; [`Error::Inconsistent`] if `accept` fails.
    pub fn rollback_and_accept(
        &self,
        name: &str,
        reach: impl Into<Reach>,
        accept: Reseal,
        origin: &Origin,
    ) -> Result<Vec<String>> {
        self.take_back(name, reach.into(), Some(accept), origin)
    }

    /// Returns what [`Pool::rollback`] would destroy.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`]; [`Error::Refused`] if it is not a snapshot, there is something
    /// later that `reach` does not include, or the dataset itself would be destroyed with a clone; [`Error::Held`] and
    /// [`Error::HasClones`].
    pub fn doomed_by_rollback(
        &self,
        name: &str,
        reach: impl Into<Reach>,
    ) -> Result<Vec<Arc<Entry>>> {
        let state = self.engine.state.read();
        let target = Arc::clone(state.find(name)?);
        let mut doomed = later(&state, name, &target, reach.into())?;
        doomed.retain(|entry| !entry.is_partial());
        Ok(doomed)
    }

    fn take_back(
        &self,
        name: &str,
        reach: Reach,
        mut accept: Option<Reseal>,
        origin: &Origin,
    ) -> Result<Vec<String>> {
        self.engine.commit_with(|commit, state| {
            let target = Arc::clone(state.find(name)?);
            let doomed = later(state, name, &target, reach)?;
            let head = Arc::clone(state.entry(target.parent)?);
            self.engine.check_closed(state, &doomed)?;
            self.engine
                .check_closed(state, std::slice::from_ref(&head))?;
            log_about(commit, state, origin, head.guid);
            let freed = holds::freed_by(state, &doomed);
            let mut names = destroy_all(commit, state, &doomed, origin)?;
            roll_back(commit, state, head.id, &target)?;
            if accept.is_some() {
                seal_again(state, &target, (head.id, commit.txg), &mut accept)?;
            }
            log_internal(commit, state, origin, "rollback to", &target);
            // Not before: the target may be among them.
            names.extend(holds::destroy_due(self, commit, state, &freed, origin)?);
            Ok(names)
        })
    }
}

/// The snapshots of a dataset after one of them, and with [`Reach::Clones`] their clones, in the order in which they are
/// destroyed.
fn later(
    state: &DatasetTable,
    name: &str,
    target: &Arc<Entry>,
    reach: Reach,
) -> Result<Vec<Arc<Entry>>> {
    if !target.is_snapshot() {
        return Err(Error::refused(name, "it is not a snapshot"));
    }
    let head = state.entry(target.parent)?;
    let snapshots = state.snapshots(head).into_iter();
    let later: Vec<Arc<Entry>> = snapshots.take_while(|s| s.id != target.id).collect();
    let in_the_way = |what: &str, names: Vec<String>| {
        let names = names.join(", ");
        let reason = format!("later {what} exist ({names}); use -r to destroy them");
        Err(Error::refused(name, reason))
    };
    if !later.is_empty() && reach == Reach::Named {
        let names = later.iter().map(|s| format!("@{}", s.name));
        return in_the_way("snapshots", names.collect());
    }
    let marks = bookmarks::later(head, target.created_txg);
    if !marks.is_empty() && reach == Reach::Named {
        return in_the_way("bookmarks", marks);
    }
    let doomed = with_clones(state, later, reach)?;
    if doomed.iter().any(|entry| entry.id == head.id) {
        let reason = "it is below a clone of a later snapshot, and -R would destroy it too; move it first, or destroy \
                      that clone by its name";
        return Err(Error::refused(name, reason));
    }
    Ok(doomed)
}
