//! Reservations: room of the pool that is kept for a dataset.
//!
//! The property `reservation` of a dataset is for it with its snapshots and everything below it, `refreservation` for
//! what it has itself and shares with no snapshot, both in bytes. What is not taken of a reservation is its *slack*,
//! and is kept from everyone whose writing would not use it up: from all but those below the dataset, and of a
//! `refreservation` from all but the dataset. To those above it counts as taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entry::Entry;
use crate::error::Result;
use crate::pool::Pool;
use crate::quota::{self, Quota};
use crate::space::{Reservation, ReserveFor};
use crate::state::State;

const RESERVATION: &str = "reservation";
pub(crate) const REFRESERVATION: &str = "refreservation";

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
    pub(crate) fn of(state: &State) -> Slacks {
        let mut slacks = Slacks::default();
        let reserves = |entry: &Arc<Entry>| {
            size(entry, RESERVATION).is_some() || size(entry, REFRESERVATION).is_some()
        };
        if !state.all().any(reserves) {
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
    fn any(&self) -> bool {
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
    fn kept_from(&self, state: &State, id: u64) -> u64 {
        let mut kept = self.total().saturating_sub(self.itself(id));
        let mut at = state.get(id);
        while let Some(entry) = at {
            kept = kept.saturating_sub(self.below(entry.id));
            at = state.get(entry.parent);
        }
        kept
    }
}

/// What a dataset has with its snapshots and what is being received below it.
pub(crate) fn taken_by(state: &State, entry: &Entry) -> u64 {
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

/// What a dataset has to keep to, as of the last commit.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Its quotas, and those of the datasets above it.
    pub quotas: Vec<Quota>,
    /// Bytes that reservations of others keep from it.
    pub kept: u64,
}

impl Pool {
    /// What a dataset has to keep to.
    pub fn limits(&self, id: u64) -> Result<Limits> {
        let state = self.shared.state.read();
        let slacks = self.slacks(&state);
        Ok(Limits {
            quotas: quota::of(&state, &slacks, id)?,
            kept: slacks.kept_from(&state, id),
        })
    }

    /// Whether a dataset has to keep to quotas or reservations, now or when less is taken than now.
    pub fn is_limited(&self, id: u64) -> Result<bool> {
        let state = self.shared.state.read();
        let slacks = self.slacks(&state);
        Ok(slacks.any() || !quota::of(&state, &slacks, id)?.is_empty())
    }

    /// Bytes that an ordinary write into a dataset may still use.
    pub fn available_to(&self, id: u64) -> Result<u64> {
        let limits = self.limits(id)?;
        let left = limits.quotas.iter().map(Quota::left).min();
        let room = self.shared.space.available_bytes();
        Ok(room
            .saturating_sub(limits.kept)
            .min(left.unwrap_or(u64::MAX)))
    }

    /// Sets bytes aside as [`Pool::reserve`] does, if then still so many are left as `kept` says.
    pub fn reserve_besides(&self, bytes: u64, why: ReserveFor, kept: u64) -> Result<Reservation> {
        let space = &self.shared.space;
        space.reserve_besides(bytes, why, kept)
    }

    /// The slacks of a state, which are the same as long as its transaction group is.
    pub(crate) fn slacks(&self, state: &State) -> Arc<Slacks> {
        let mut known = self.shared.slacks.lock();
        match &*known {
            Some((txg, slacks)) if *txg == state.txg => Arc::clone(slacks),
            _ => {
                let slacks = Arc::new(Slacks::of(state));
                *known = Some((state.txg, Arc::clone(&slacks)));
                slacks
            }
        }
    }
}
