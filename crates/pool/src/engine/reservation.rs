//! Reservations: free space of the pool that is kept for a dataset.
//!
//! The property `reservation` of a dataset is for it with its snapshots and everything below it, `refreservation` for
//! what it has itself and shares with no snapshot, both in bytes. What is not taken of a reservation is its *slack*,
//! and is kept from everyone whose writing would not use it up: from all but those below the dataset, and of a
//! `refreservation` from all but the dataset. To those above it counts as taken.

use std::collections::BTreeMap;

use crate::engine::table::DatasetTable;
use crate::format::entry::Entry;
use crate::format::entry_flags::REFRESERVATION;

const RESERVATION: &str = "reservation";

/// What the reservations of a pool still keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slacks {
    /// By the ids of datasets, for them with everything below.
    below: BTreeMap<u64, u64>,
    /// For the datasets themselves.
    itself: BTreeMap<u64, u64>,
}

impl Slacks {
    /// The slacks of all reservations, also of those that are used up.
    pub(crate) fn of(state: &DatasetTable) -> Slacks {
        let mut slacks = Slacks::default();
        if !state.all().any(|entry| entry.reserves()) {
            return slacks;
        }
        let Ok(top) = state.top() else { return slacks };
        let mut below: BTreeMap<u64, u64> = BTreeMap::new();
        // Parents come after what is below them.
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

    /// Whether there are reservations.
    pub(crate) fn any(&self) -> bool {
        !self.below.is_empty() || !self.itself.is_empty()
    }

    /// Bytes that are kept in all.
    pub(crate) fn total(&self) -> u64 {
        let all = self.below.values().chain(self.itself.values());
        all.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// What is kept for a dataset itself.
    pub(crate) fn itself(&self, id: u64) -> u64 {
        self.itself.get(&id).copied().unwrap_or(0)
    }

    /// What is kept for a dataset and everything below it, besides what is for itself.
    pub(crate) fn below(&self, id: u64) -> u64 {
        self.below.get(&id).copied().unwrap_or(0)
    }

    /// Bytes that are kept from a dataset.
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
    /// Whether space of the pool is kept for it.
    pub fn reserves(&self) -> bool {
        size(self, RESERVATION).is_some() || size(self, REFRESERVATION).is_some()
    }
}

/// What a dataset has with its snapshots and what is being received below it.
pub(crate) fn taken_by(state: &DatasetTable, entry: &Entry) -> u64 {
    let partials = state.partials(entry.id).map(|partial| partial.used);
    partials.fold(entry.used, u64::saturating_add)
}

/// A property in bytes. What is no number is none.
pub(crate) fn size(entry: &Entry, property: &str) -> Option<u64> {
    match entry.is_snapshot() {
        true => None,
        false => entry.props.get(property)?.parse().ok(),
    }
}
