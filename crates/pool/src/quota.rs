//! Quotas: how much of the pool a dataset may take, with its snapshots and everything below it.
//!
//! A quota is the property `quota` of a dataset, in bytes. The pool says what is taken; whoever writes keeps to it,
//! since only he knows what he is about to write.

use crate::entry::Entry;
use crate::error::Result;
use crate::pool::Pool;

/// The property, in decimal digits.
const PROPERTY: &str = "quota";

/// A quota that a dataset has, or one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The id of the dataset that has it.
    pub holder: u64,
    /// How many bytes that may take.
    pub limit: u64,
    /// How many it takes, as of the last commit.
    pub used: u64,
}

impl Quota {
    /// How many bytes are left.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

impl Pool {
    /// The quotas that a dataset has to keep to: its own, and those of the datasets above it.
    pub fn quotas(&self, id: u64) -> Result<Vec<Quota>> {
        let state = self.shared.state.read();
        let mut at = Some(state.entry(id)?);
        let mut quotas = Vec::new();
        while let Some(entry) = at {
            if let Some(limit) = limit_of(entry) {
                let below = state.subtree(entry.id);
                let used = below
                    .iter()
                    .fold(0, |sum: u64, e| sum.saturating_add(e.used));
                quotas.push(Quota {
                    holder: entry.id,
                    limit,
                    used,
                });
            }
            at = state.get(entry.parent);
        }
        Ok(quotas)
    }
}

/// What is no number limits nothing.
fn limit_of(entry: &Entry) -> Option<u64> {
    match entry.is_snapshot() {
        true => None,
        false => entry.props.get(PROPERTY)?.parse().ok(),
    }
}
