//! Reservations: free space of the pool that is kept for a dataset.
//!
//! The property `reservation` is for a dataset with its snapshots and all datasets below it. `refreservation` is
//! for the data that only the dataset has and no snapshot shares. Both are in bytes. The unused part of a
//! reservation is its *slack*. Only the holder can use the slack: the dataset and those below it, or with
//! `refreservation` the dataset alone. For the datasets above, the slack counts as used.

use std::collections::BTreeMap;

use crate::engine::datasets::table::DatasetTable;
use crate::format::datasets::entry::Entry;
use crate::format::datasets::entry_flags::REFRESERVATION;

const RESERVATION: &str = "reservation";

/// The slacks of all reservations of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slacks {
    /// The slacks of `reservation`, by the id of the dataset.
    below: BTreeMap<u64, u64>,
    /// The slacks of `refreservation`, by the id of the dataset.
    itself: BTreeMap<u64, u64>,
}

impl Slacks {
    /// Computes the slacks of all reservations. A reservation that is used up has a slack of 0.
    pub(crate) fn of(state: &DatasetTable) -> Slacks {
        let mut slacks = Slacks::default();
        if !state.all().any(|entry| entry.reserves()) {
            return slacks;
        }
        let Ok(top) = state.top() else { return slacks };
        let mut below: BTreeMap<u64, u64> = BTreeMap::new();
        // Children first, then their parents.
        for entry in state.subtree(top.id).iter().rev() {
            let mut taken = taken_by(state, entry);
            taken = taken.saturating_add(below.remove(&entry.id).unwrap_or(0));
            if let Some(bytes) = size(entry, REFRESERVATION) {
                let slack = bytes.saturating_sub(state.own_bytes(entry));
                slacks.itself.insert(entry.id, slack);
                taken = taken.saturating_add(slack);
            }
            if let Some(bytes) = size(entry, RESERVATION) {
                slacks.below.insert(entry.id, bytes.saturating_sub(taken));
                taken = taken.max(bytes);
            }
            let above = below.entry(entry.parent).or_default();
            *above = above.saturating_add(taken);
        }
        slacks
    }

    pub(crate) fn any(&self) -> bool {
        !self.below.is_empty() || !self.itself.is_empty()
    }

    /// The sum of all slacks, in bytes.
    pub(crate) fn total(&self) -> u64 {
        let all = self.below.values().chain(self.itself.values());
        all.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// The slack of a dataset's `refreservation`.
    pub(crate) fn itself(&self, id: u64) -> u64 {
        self.itself.get(&id).copied().unwrap_or(0)
    }

    /// The slack of a dataset's `reservation`, without that of its `refreservation`.
    pub(crate) fn below(&self, id: u64) -> u64 {
        self.below.get(&id).copied().unwrap_or(0)
    }

    /// The bytes that a dataset cannot use.
    pub(crate) fn kept_from(&self, state: &DatasetTable, id: u64) -> u64 {
        let mut kept = self.total().saturating_sub(self.itself(id));
        let mut at = state.get(id);
        while let Some(entry) = at {
            kept = kept.saturating_sub(self.below(entry.id));
            at = state.get(entry.parent);
        }
        kept
    }
}

impl Entry {
    /// Returns whether it has a reservation.
    pub fn reserves(&self) -> bool {
        size(self, RESERVATION).is_some() || size(self, REFRESERVATION).is_some()
    }
}

/// The bytes of a dataset with its snapshots and running receives below it.
pub(crate) fn taken_by(state: &DatasetTable, entry: &Entry) -> u64 {
    let partials = state.partials(entry.id).map(|partial| partial.used);
    partials.fold(entry.used, u64::saturating_add)
}

/// The bytes of a running receive into a dataset, which [`taken_by`] counts for the dataset above.
pub(crate) fn received_into(state: &DatasetTable, entry: &Entry) -> u64 {
    let partial = state.partial_into(entry);
    partial.map_or(0, |partial| partial.used)
}

/// The value of a property in bytes; `None` if it is missing or not a number.
pub(crate) fn size(entry: &Entry, property: &str) -> Option<u64> {
    match entry.is_snapshot() {
        true => None,
        false => entry.props.get(property)?.parse().ok(),
    }
}
