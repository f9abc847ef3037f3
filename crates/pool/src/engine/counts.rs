//! Limits for the number of datasets and snapshots: the properties `filesystem_limit` and `snapshot_limit`.
//!
//! Both count everything below a dataset, and the snapshots of the dataset itself. A limit below the present count is
//! allowed, as in ZFS: then nothing more can be made. A limit applies to root too, but root can raise it.

use std::collections::BTreeMap;

use crate::engine::reservation::size;
use crate::engine::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::entry::Entry;

/// The numbers of datasets and snapshots below a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// File systems and volumes, without the dataset.
    pub datasets: u64,
    /// Snapshots, with those of the dataset itself.
    pub snapshots: u64,
}

impl Counts {
    /// Counts the datasets and snapshots below a dataset, without running receives.
    pub(crate) fn of(state: &DatasetTable, id: u64) -> Counts {
        let mut counts = Counts::default();
        for head in state.subtree(id) {
            counts.datasets += u64::from(head.id != id);
            counts.snapshots += state.snapshot_count(&head);
        }
        counts
    }
}

/// The property of a limit, and the number that it limits.
type Counted = (&'static str, fn(&Counts) -> u64);

const LIMITS: [Counted; 2] = [
    ("filesystem_limit", |counts| counts.datasets),
    ("snapshot_limit", |counts| counts.snapshots),
];

/// The counts of the datasets with limits, before a change.
pub(crate) struct CountsBefore(BTreeMap<u64, Counts>);

impl CountsBefore {
    pub(crate) fn of(state: &DatasetTable) -> CountsBefore {
        let limited = state.all().filter(|entry| is_limited(entry));
        CountsBefore(
            limited
                .map(|entry| (entry.id, Counts::of(state, entry.id)))
                .collect(),
        )
    }

    /// Refuses a state in which a dataset exceeds its limit, if the change raised the count.
    pub(crate) fn check(&self, state: &DatasetTable) -> Result<()> {
        for entry in state.all().filter(|entry| is_limited(entry)) {
            let Some(before) = self.0.get(&entry.id) else {
                continue;
            };
            let now = Counts::of(state, entry.id);
            for (property, count) in LIMITS {
                let (before, now) = (count(before), count(&now));
                if let Some(limit) = size(entry, property).filter(|limit| now > *limit)
                    && now > before
                {
                    return Err(too_many(state, entry, now, property, limit));
                }
            }
        }
        Ok(())
    }
}

/// Refuses `more` datasets below a dataset, if they exceed its limit or one above it.
pub(crate) fn check_more(state: &DatasetTable, id: u64, more: u64) -> Result<()> {
    let above = std::iter::successors(state.get(id), |entry| state.get(entry.parent));
    for entry in above.filter(|entry| is_limited(entry)) {
        let would_be = Counts::of(state, entry.id).datasets + more;
        let (property, _) = LIMITS[0];
        if let Some(limit) = size(entry, property).filter(|limit| would_be > *limit) {
            return Err(too_many(state, entry, would_be, property, limit));
        }
    }
    Ok(())
}

fn too_many(
    state: &DatasetTable,
    entry: &Entry,
    would_be: u64,
    property: &str,
    limit: u64,
) -> Error {
    Error::Limit {
        name: state.name_of(entry),
        reason: format!(
            "there would be {would_be} below it, which is more than the {property} of {limit}"
        ),
    }
}

fn is_limited(entry: &Entry) -> bool {
    let mut limits = LIMITS.iter();
    limits.any(|(property, _)| size(entry, property).is_some())
}
