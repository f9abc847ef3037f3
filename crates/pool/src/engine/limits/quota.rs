//! Quotas: how much space of the pool a dataset can use.
//!
//! The property `quota` limits a dataset with its snapshots and all datasets below it. `refquota` limits the data
//! that the dataset itself refers to. Both are in bytes. The pool counts the used bytes. The writer checks the
//! limits, because only the writer knows how much it will write.

use std::collections::BTreeMap;

use store::human_size;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::limits::reservation::{Slacks, received_into, size, taken_by};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::storage::space::Space;

/// The data that a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaKind {
    /// A dataset with its snapshots and all datasets below it.
    Below,
    /// The data that a dataset refers to.
    Itself,
}

impl QuotaKind {
    pub(crate) const ALL: [QuotaKind; 2] = [QuotaKind::Below, QuotaKind::Itself];

    /// The property, in decimal digits.
    pub(crate) fn property(self) -> &'static str {
        match self {
            QuotaKind::Below => "quota",
            QuotaKind::Itself => "refquota",
        }
    }
}

/// A quota of a dataset, or of a dataset above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The id of the dataset with the quota.
    pub holder: u64,
    /// The data that it counts.
    pub kind: QuotaKind,
    /// The limit in bytes.
    pub limit: u64,
    /// The bytes in use after the last commit, and bytes that reservations keep for others.
    pub used: u64,
}

impl Quota {
    /// The bytes that are left.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// The limits of a dataset, as of the last commit.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The quotas of the dataset, and those of the datasets above it.
    pub quotas: Vec<Quota>,
    /// The bytes that it cannot use, because they are reserved for other datasets.
    pub kept: u64,
}

/// The quotas that limit a dataset: its own, and those of the datasets above it.
pub(crate) fn of(state: &DatasetTable, slacks: &Slacks, id: u64) -> Result<Vec<Quota>> {
    let own = state.entry(id)?;
    let mut quotas = Vec::new();
    if let Some(limit) = size(own, QuotaKind::Itself.property()) {
        quotas.push(Quota {
            holder: id,
            kind: QuotaKind::Itself,
            limit,
            used: own.referenced,
        });
    }
    let mut path = Vec::new();
    let mut at = Some(own);
    while let Some(entry) = at {
        path.push(entry.id);
        if let Some(limit) = size(entry, QuotaKind::Below.property()) {
            let mut used = received_into(state, entry);
            for below in state.subtree(entry.id) {
                used = used.saturating_add(taken_by(state, &below));
                if below.id != id {
                    used = used.saturating_add(slacks.itself(below.id));
                }
                if !path.contains(&below.id) {
                    used = used.saturating_add(slacks.below(below.id));
                }
            }
            quotas.push(Quota {
                holder: entry.id,
                kind: QuotaKind::Below,
                limit,
                used,
            });
        }
        at = state.get(entry.parent);
    }
    Ok(quotas)
}

/// Quotas and reservations before a change, to compare with the state after it.
pub(crate) struct Demand {
    /// The bytes that reservations keep.
    kept: u64,
    /// The excess over each exceeded quota.
    excess: BTreeMap<(u64, QuotaKind), u64>,
}

impl Demand {
    pub(crate) fn of(state: &DatasetTable) -> Demand {
        let slacks = Slacks::of(state);
        let mut excess = BTreeMap::new();
        for entry in state.all() {
            for kind in QuotaKind::ALL {
                if let Some((limit, used)) = claimed(state, &slacks, entry, kind)
                    && used > limit
                {
                    excess.insert((entry.id, kind), used - limit);
                }
            }
        }
        Demand {
            kept: slacks.total(),
            excess,
        }
    }

    /// Refuses a change that reserves more space than is free, or that exceeds a quota. An excess from before the
    /// change is allowed.
    pub(crate) fn check(&self, space: &Space, state: &DatasetTable) -> Result<()> {
        let slacks = Slacks::of(state);
        let now = Demand::of(state);
        let grown = |(key, by): &(&(u64, QuotaKind), &u64)| {
            self.excess.get(*key).is_none_or(|before| *before < **by)
        };
        if let Some(((id, kind), _)) = now.excess.iter().find(grown) {
            let entry = state.entry(*id)?;
            let (limit, used) = claimed(state, &slacks, entry, *kind).unwrap_or_default();
            return Err(Error::Limit {
                name: state.name_of(entry),
                reason: format!(
                    "it uses {}, reservations included, which is more than the {} of {}",
                    human_size(used),
                    kind.property(),
                    human_size(limit)
                ),
            });
        }
        let available = space.available_bytes();
        if now.kept > self.kept && now.kept > available {
            return Err(Error::Limit {
                name: state.pool_name(),
                reason: format!(
                    "this would reserve {} more, and only {} of the pool are neither used nor reserved",
                    human_size(now.kept - self.kept),
                    human_size(available.saturating_sub(self.kept))
                ),
            });
        }
        Ok(())
    }
}

/// The limit of a quota, and the bytes that count for it, with the dataset's own reservation.
fn claimed(
    state: &DatasetTable,
    slacks: &Slacks,
    entry: &Entry,
    kind: QuotaKind,
) -> Option<(u64, u64)> {
    let limit = size(entry, kind.property())?;
    let used = match kind {
        QuotaKind::Itself => {
            let reserved = slacks
                .itself(entry.id)
                .saturating_add(state.own_bytes(entry));
            entry.referenced.max(reserved)
        }
        QuotaKind::Below => {
            let received = received_into(state, entry);
            state.subtree(entry.id).iter().fold(received, |sum, below| {
                sum.saturating_add(taken_by(state, below))
                    .saturating_add(slacks.itself(below.id))
                    .saturating_add(slacks.below(below.id))
            })
        }
    };
    Some((limit, used))
}
