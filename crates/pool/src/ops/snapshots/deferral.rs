//! Destroys snapshots now or, where something keeps them, as soon as nothing does.

use std::sync::Arc;

use zerocopy::little_endian::U64;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_internal};
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::superblock::features::FEATURE_DEFERRED;
use crate::ops::pool::Pool;
use crate::ops::snapshots::holds;
use crate::ops::snapshots::name_ranges;
use crate::ops::snapshots::snapshot;

/// Space for what an entry says of it.
const MARK: usize = 16;

/// Snapshots to destroy.
#[derive(Clone, Debug, Default)]
pub struct Deferral {
    /// The snapshots that nothing keeps.
    pub now: Vec<Arc<Entry>>,
    /// The snapshots with holds or clones.
    pub later: Vec<Arc<Entry>>,
}

impl Pool {
    /// Returns what [`Pool::destroy_or_defer`] would do.
    ///
    /// # Errors
    /// [`NoSuchDataset`](crate::Error::NoSuchDataset); [`BadName`](crate::Error::BadName), also for a name that is not
    /// one of snapshots; [`Retained`](crate::Error::Retained).
    pub fn deferral(&self, name: &str, recursive: bool) -> Result<Deferral> {
        deferral(&self.engine.state.read(), name, recursive)
    }

    /// Destroys the snapshots that a name stands for, with `recursive` also those of the same names in datasets below.
    /// Those that are held, or have clones, are destroyed with the last of these. Returns the names of those that went.
    ///
    /// # Errors
    /// As [`Pool::deferral`]; [`Busy`](crate::Error::Busy) if one that nothing keeps is open;
    /// [`NoSpace`](crate::Error::NoSpace); as [`Pool::commit`].
    pub fn destroy_or_defer(
        &self,
        name: &str,
        recursive: bool,
        origin: &Origin,
    ) -> Result<Vec<String>> {
        self.engine.commit_with(|commit, state| {
            let Deferral { now, later } = deferral(state, name, recursive)?;
            self.engine.check_closed(state, &now)?;
            let new: Vec<&Arc<Entry>> = later.iter().filter(|it| !it.is_deferred()).collect();
            let _reserved = commit.reserve_entries(new.len(), new.len() * MARK)?;
            log(commit, state, origin, None);
            if !new.is_empty() {
                state.root.features_optional |= U64::new(FEATURE_DEFERRED);
            }
            for entry in new {
                state.edit(entry.id)?.defer();
            }
            let names = now.iter().map(|entry| state.name_of(entry)).collect();
            for entry in &now {
                log_internal(commit, state, origin, "destroy", entry);
                snapshot::destroy(commit, state, entry.id)?;
            }
            Ok(names)
        })
    }
}

fn deferral(state: &DatasetTable, name: &str, recursive: bool) -> Result<Deferral> {
    let all = name_ranges::named(state, name, recursive)?;
    let kept = |entry: &Arc<Entry>| holds::is_kept(state, entry);
    let (later, now): (Vec<_>, _) = all.into_iter().partition(kept);
    // It would go at the end of its retention, which its owner may still put off.
    later
        .iter()
        .try_for_each(|entry| state.check_ended(entry))?;
    Ok(Deferral { now, later })
}
