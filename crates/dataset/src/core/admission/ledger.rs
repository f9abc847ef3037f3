//! The accounts of quotas: the use at the last commit, and the reserved bytes since then.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pool::{Limits, Quota, QuotaKind};

/// The bytes that were reserved under quotas since the last commits, by pool, holder and transaction group.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<QuotaHolder, BTreeMap<u64, u64>>>);

/// A pool, and the holder of a quota in it.
type QuotaHolder = (u64, u64, QuotaKind);

impl Ledger {
    /// Counts bytes that are about to be written under quotas. If one quota does not allow them, counts nothing and
    /// returns false. The use in `quotas` is that of transaction group `committed`.
    pub(super) fn charge(&self, pool: u64, quotas: &[Quota], committed: u64, bytes: u64) -> bool {
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
            // The open transaction group is the next one, or, while the next one commits, the one after.
            let charged = pending.entry(committed + 2).or_default();
            *charged = charged.saturating_add(bytes);
        }
        true
    }

    /// Forgets the bytes that were counted before a commit. The commit has ended; before it, `committed` was the last
    /// one.
    pub(super) fn settle(&self, pool: u64, quotas: &[Quota], committed: u64) {
        let mut ledger = self.0.lock();
        for quota in quotas {
            if let Some(pending) = ledger.get_mut(&(pool, quota.holder, quota.kind)) {
                *pending = pending.split_off(&(committed + 3));
            }
        }
    }
}

/// The limits of a dataset, and the transaction group at which they were read.
#[derive(Default)]
pub(crate) struct KnownLimits(pub(super) Mutex<Option<(u64, Limits)>>);

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
        // The bytes may be in the group that is open while the next one commits.
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
