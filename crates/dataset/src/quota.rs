//! Keeping to quotas and to the reservations of others.
//!
//! What a dataset takes is known as of the last commit. What is written since is counted from above, by what is set
//! aside for it, and for all datasets below the quota together. Where that would be too much, a commit tells what
//! it really is. So the nearer a quota is, the more often there is a commit, and what is written is never more than
//! it allows, but for a few pages of metadata that operations under way at that moment take.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pool::{Limits, Quota, QuotaKind, Reservation, ReserveFor};

use crate::error::Result;
use crate::files::Files;

/// What an operation on names and attributes is counted as. Most change pages that another one of the same
/// transaction group has changed before.
pub(crate) const OPERATION_CHARGE: u64 = 8 << 10;

/// What was set aside under quotas since the last commits, by pool, holder and transaction group.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<Account, BTreeMap<u64, u64>>>);

/// A pool, and the holder of a quota in it.
type Account = (u64, u64, QuotaKind);

impl Ledger {
    /// Counts bytes that are about to be written under quotas, unless one does not allow them. `committed` is the
    /// last transaction group that is part of what they say.
    fn charge(&self, pool: u64, quotas: &[Quota], committed: u64, bytes: u64) -> bool {
        let mut ledger = self.0.lock();
        for quota in quotas {
            let pending = ledger.entry((pool, quota.holder, quota.kind)).or_default();
            *pending = pending.split_off(&(committed + 1));
            let sum = pending
                .values()
                .fold(bytes, |sum, n| sum.saturating_add(*n));
            if sum > quota.left() {
                return false;
            }
        }
        for quota in quotas {
            let pending = ledger.entry((pool, quota.holder, quota.kind)).or_default();
            // The open transaction group is the next one, or while that commits the one after.
            let charged = pending.entry(committed + 2).or_default();
            *charged = charged.saturating_add(bytes);
        }
        true
    }

    /// Forgets what was counted before a commit that has ended, when `committed` was the last one.
    fn settle(&self, pool: u64, quotas: &[Quota], committed: u64) {
        let mut ledger = self.0.lock();
        for quota in quotas {
            if let Some(pending) = ledger.get_mut(&(pool, quota.holder, quota.kind)) {
                *pending = pending.split_off(&(committed + 3));
            }
        }
    }
}

/// What a dataset has to keep to, as of a transaction group.
#[derive(Default)]
pub(crate) struct KnownLimits(Mutex<Option<(u64, Limits)>>);

impl Files {
    /// Counts bytes that are about to be written, if quotas allow them.
    ///
    /// # Errors
    /// [`vfs::Error::Quota`] if they do not, also after a commit and when what waits to be freed has been.
    pub(crate) fn charge(&self, bytes: u64) -> Result<()> {
        if !self.settings().limited || self.try_charge(bytes)? {
            return Ok(());
        }
        let free = || {
            // What was removed is given back by a commit after the one that removed it.
            self.pool.commit()?;
            self.reap_dead()?;
            let before = self.pool.committed_txg();
            self.free_to_the_end()?;
            let quotas = self.pool.limits(self.id())?.quotas;
            self.engine.ledger.settle(self.pool.guid(), &quotas, before);
            Ok(())
        };
        let charged = self.after_freeing(free, || Ok(self.try_charge(bytes)?.then_some(())))?;
        Ok(charged.ok_or(vfs::Error::Quota)?)
    }

    fn try_charge(&self, bytes: u64) -> Result<bool> {
        self.with_limits(|as_of, limits| {
            let ledger = &self.engine.ledger;
            ledger.charge(self.pool.guid(), &limits.quotas, as_of, bytes)
        })
    }

    /// Sets room aside in the pool, and leaves what reservations keep for others.
    pub(crate) fn room_of_pool(&self, bytes: u64, why: ReserveFor) -> Result<Reservation> {
        let kept = match why {
            ReserveFor::Freeing | ReserveFor::FreeingAlone => {
                return Ok(self.pool.reserve_to_free(bytes)?);
            }
            ReserveFor::Writing if self.settings().limited => {
                self.with_limits(|_, limits| limits.kept)?
            }
            ReserveFor::Writing => 0,
        };
        Ok(self.pool.reserve_besides(bytes, why, kept)?)
    }

    /// Shows the limits as of the last commit, and which that is.
    fn with_limits<T>(&self, look: impl FnOnce(u64, &Limits) -> T) -> Result<T> {
        let committed = self.pool.committed_txg();
        let mut known = self.limits.0.lock();
        if known.as_ref().is_none_or(|(as_of, _)| *as_of != committed) {
            *known = Some((committed, self.pool.limits(self.id())?));
        }
        let (as_of, limits) = known.as_ref().expect("just set");
        Ok(look(*as_of, limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(holder: u64, limit: u64, used: u64) -> Quota {
        Quota {
            holder,
            kind: QuotaKind::Below,
            limit,
            used,
        }
    }

    #[test]
    fn what_is_under_way_counts_until_it_is_committed() {
        let ledger = Ledger::default();
        let quotas = [quota(2, 100, 50)];
        assert!(ledger.charge(1, &quotas, 7, 30));
        assert!(!ledger.charge(1, &quotas, 7, 30));
        // Of another pool, and below another quota.
        assert!(ledger.charge(9, &quotas, 7, 30));
        assert!(ledger.charge(1, &[quota(3, 100, 50)], 7, 30));
        let itself = Quota {
            kind: QuotaKind::Itself,
            ..quotas[0]
        };
        assert!(ledger.charge(1, &[itself], 7, 30));
        // It may be in the group that is open while the next one commits.
        assert!(!ledger.charge(1, &quotas, 8, 30));
        assert!(ledger.charge(1, &quotas, 9, 30));
        // All quotas, or none is charged.
        let both = [quota(2, 100, 50), quota(4, 60, 50)];
        assert!(!ledger.charge(1, &both, 20, 20));
        assert!(ledger.charge(1, &quotas, 20, 50));
    }

    #[test]
    fn a_commit_that_had_nothing_to_do_settles_too() {
        let ledger = Ledger::default();
        let quotas = [quota(2, 100, 50)];
        assert!(ledger.charge(1, &quotas, 7, 50));
        ledger.settle(1, &quotas, 7);
        assert!(ledger.charge(1, &quotas, 7, 50));
    }

    #[test]
    fn a_quota_below_what_is_used_leaves_nothing() {
        let ledger = Ledger::default();
        assert!(!ledger.charge(1, &[quota(2, 10, 50)], 7, 1));
        assert!(ledger.charge(1, &[], 7, u64::MAX));
    }
}
