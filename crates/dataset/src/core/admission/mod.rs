//! Admission of writes: quotas, and space in the pool that is reserved first.

mod ledger;
mod quota;
mod reserve;
mod unlinked;

pub(crate) use ledger::{KnownLimits, Ledger};
pub(crate) use unlinked::Unlinked;
