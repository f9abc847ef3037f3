//! Limits for the number of datasets and snapshots, and for the bytes of their texts: the properties `filesystem_limit`,
//! `snapshot_limit` and `property_limit`.
//!
//! All count everything below a dataset, and the snapshots of the dataset itself. A limit below the present count is
//! allowed, as in ZFS: then nothing more can be made. A limit applies to root too, but root can raise it.

use std::collections::BTreeMap;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::limits::reservation::size;
use crate::error::{Error, Result};
use crate::format::datasets::entry::{Entry, text_bytes};

/// The numbers of datasets and snapshots below a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetCounts {
    /// File systems and volumes, without the dataset.
    pub datasets: u64,
    /// Snapshots, with those of the dataset itself.
    pub snapshots: u64,
}

impl DatasetCounts {
    /// Counts the datasets and snapshots below a dataset, without running receives.
    pub(crate) fn of(state: &DatasetTable, id: u64) -> DatasetCounts {
        let mut counts = DatasetCounts::default();
        for head in state.subtree(id) {
            counts.datasets += u64::from(head.id != id);
            counts.snapshots += state.snapshot_count(&head);
        }
        counts
    }
}

/// The bytes of the texts of a dataset, its snapshots and everything below: properties, tags, bookmarks, permissions.
/// They are in the memory of the pool and not in a dataset, so no quota counts them.
pub(crate) fn texts(state: &DatasetTable, id: u64) -> u64 {
    let of = |entry: &Entry| text_bytes(&entry.props) as u64;
    let heads = state.subtree(id);
    let sums = heads.iter().map(|head| {
        let snapshots = state.snapshots(head);
        of(head) + snapshots.iter().map(|snapshot| of(snapshot)).sum::<u64>()
    });
    sums.sum()
}

/// The property of a limit, and the number that it limits.
type CountLimit = (&'static str, fn(&DatasetTable, u64) -> u64);

const LIMITS: [CountLimit; 3] = [
    ("filesystem_limit", |state, id| {
        DatasetCounts::of(state, id).datasets
    }),
    ("snapshot_limit", |state, id| {
        DatasetCounts::of(state, id).snapshots
    }),
    ("property_limit", texts),
];

/// The counts of the datasets with limits, before a change, by id and property.
pub(crate) struct CountsBefore(BTreeMap<(u64, &'static str), u64>);

impl CountsBefore {
    pub(crate) fn of(state: &DatasetTable) -> CountsBefore {
        let mut before = BTreeMap::new();
        for entry in state.all() {
            for (property, count) in LIMITS {
                if size(entry, property).is_some() {
                    before.insert((entry.id, property), count(state, entry.id));
                }
            }
        }
        CountsBefore(before)
    }

    /// Refuses a state in which a dataset exceeds its limit, if the change raised the count.
    pub(crate) fn check(&self, state: &DatasetTable) -> Result<()> {
        for entry in state.all() {
            for (property, count) in LIMITS {
                let (Some(limit), Some(before)) =
                    (size(entry, property), self.0.get(&(entry.id, property)))
                else {
                    continue;
                };
                let now = count(state, entry.id);
                if now > limit && now > *before {
                    return Err(too_many(state, entry, now, property, limit));
                }
            }
        }
        Ok(())
    }
}

/// Refuses `more` datasets below a dataset, if they exceed its limit or one above it.
pub(crate) fn check_more(state: &DatasetTable, id: u64, more: u64) -> Result<()> {
    check_would_be(state, id, |count, _| count + more)
}

/// Refuses a receive that makes a dataset below a dataset, if it exceeds its limit or one above it together with the
/// other receives. An interrupted receive may stay for long, and each takes memory as a dataset does.
pub(crate) fn check_new_partial(state: &DatasetTable, id: u64) -> Result<()> {
    check_would_be(state, id, |count, holder| {
        count + state.new_partials(holder) + 1
    })
}

fn check_would_be(state: &DatasetTable, id: u64, would_be: impl Fn(u64, u64) -> u64) -> Result<()> {
    let above = std::iter::successors(state.get(id), |entry| state.get(entry.parent));
    let (property, count) = LIMITS[0];
    for entry in above {
        let Some(limit) = size(entry, property) else {
            continue;
        };
        let would_be = would_be(count(state, entry.id), entry.id);
        if would_be > limit {
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
    let what = match property {
        "property_limit" => format!(
            "its properties, tags, bookmarks and permissions, with those of everything below, would have {would_be} bytes"
        ),
        _ => format!("there would be {would_be} below it"),
    };
    Error::Limit {
        name: state.name_of(entry),
        reason: format!("{what}, which is more than the {property} of {limit}"),
    }
}
