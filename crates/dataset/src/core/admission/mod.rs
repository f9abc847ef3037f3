//! Admission of writes: quotas, and space in the pool that is reserved first.

mod ledger;
mod orphans;
mod quota;
mod reserve;

pub(crate) use ledger::{KnownLimits, Ledger};
pub(crate) use orphans::OrphanFiles;
