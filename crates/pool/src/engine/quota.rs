//! Quotas: how much of the pool a dataset may take.
//!
//! The property `quota` of a dataset is for it with its snapshots and everything below it, `refquota` for what it
//! refers to itself, both in bytes. The pool counts the used bytes; the writer checks the limits, since only it
//! knows what it is about to write.

use std::collections::BTreeMap;

use crate::engine::reservation::{Slacks, size, taken_by};
use crate::engine::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::entry::Entry;
use crate::storage::space::Space;

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaKind {
    /// A dataset with its snapshots and everything below it.
    Below,
    /// What a dataset refers to.
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

/// A quota that a dataset has, or one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The id of the dataset that has it.
    pub holder: u64,
    /// What it counts.
    pub kind: QuotaKind,
    /// How many bytes that may be.
    pub limit: u64,
    /// How many there are, as of the last commit, with what reservations keep for others.
    pub used: u64,
}

impl Quota {
    /// How many bytes are left.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// What a dataset has to keep to, as of the last commit.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Its quotas, and those of the datasets above it.
    pub quotas: Vec<Quota>,
    /// Bytes that reservations of others keep from it.
    pub kept: u64,
}

/// The quotas that a dataset has to keep to: its own, and those of the datasets above it.
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
            let mut used: u64 = 0;
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

/// What quotas and reservations ask for, before a change of the state that they are to allow.
pub(crate) struct Demand {
    /// What reservations keep.
    kept: u64,
    /// By how much more is taken than quotas allow, where it is.
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

    /// Refuses a state in which more is wanted than there is, or than quotas allow, if it was not so before.
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
                    "it takes {used} bytes, with what is reserved in it, which is more than the {} of {limit}",
                    kind.property()
                ),
            });
        }
        let available = space.available_bytes();
        if now.kept > self.kept && now.kept > available {
            return Err(Error::Limit {
                name: state.root.name(),
                reason: format!(
                    "this would reserve {} bytes more, and only {} bytes of the pool are neither used nor \
                     reserved",
                    now.kept - self.kept,
                    available.saturating_sub(self.kept)
                ),
            });
        }
        Ok(())
    }
}

/// What a quota of a dataset allows, and what counts for it, its own reservation included.
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
        QuotaKind::Below => state.subtree(entry.id).iter().fold(0, |sum: u64, below| {
            sum.saturating_add(taken_by(state, below))
                .saturating_add(slacks.itself(below.id))
                .saturating_add(slacks.below(below.id))
        }),
    };
    Some((limit, used))
}
