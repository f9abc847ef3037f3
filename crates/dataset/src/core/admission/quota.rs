//! Enforces quotas, and leaves the space that other datasets have reserved.
//!
//! The pool knows the use of a dataset as of the last commit. Later writes are counted by their reservations, an upper
//! bound, and together for all datasets below a quota. If the sum exceeds the quota, a commit finds the true use. So
//! commits become more frequent near a quota. A quota is never exceeded, except by a few pages of metadata of
//! operations that run at that moment.

use pool::{Limits, ReserveFor, SpaceReservation};

use crate::core::dataset::Dataset;
use crate::core::settings::Settings;
use crate::error::Result;

/// The bytes that are counted for an operation on names and attributes. Most operations change pages that the same
/// transaction group has already changed.
pub(crate) const OPERATION_CHARGE: u64 = 8 << 10;

impl Dataset {
    /// Counts bytes that are about to be written, if quotas allow them.
    ///
    /// # Errors
    /// [`vfs::Error::Quota`] if they do not, even after a commit, and after all deleted data was freed.
    pub(crate) fn charge(&self, settings: &Settings, bytes: u64) -> Result<()> {
        if !settings.limited || self.try_charge(bytes)? {
            return Ok(());
        }
        let free = || {
            // The space of removed data is free one commit after the commit that removed it.
            self.pool.commit()?;
            self.free_dead_slots()?;
            let before = self.pool.committed_txg();
            self.free_to_the_end()?;
            let quotas = self.pool.limits(self.id())?.quotas;
            self.engine.ledger.settle(self.pool.guid(), &quotas, before);
            Ok(())
        };
        let charged = self.after_freeing(free, || Ok(self.try_charge(bytes)?.then_some(())))?;
        Ok(charged.ok_or(vfs::Error::Quota)?)
    }

    pub(super) fn try_charge(&self, bytes: u64) -> Result<bool> {
        self.with_limits(|as_of, limits| {
            let ledger = &self.engine.ledger;
            ledger.charge(self.pool.guid(), &limits.quotas, as_of, bytes)
        })
    }

    /// Reserves space in the pool, and leaves the space that other datasets have reserved.
    pub(crate) fn reserve_in_pool(
        &self,
        settings: &Settings,
        bytes: u64,
        why: ReserveFor,
    ) -> Result<SpaceReservation> {
        let kept = match why {
            ReserveFor::Freeing | ReserveFor::FreeingAlone => {
                return Ok(self.pool.reserve_to_free(bytes)?);
            }
            ReserveFor::Writing if settings.limited => self.with_limits(|_, limits| limits.kept)?,
            ReserveFor::Writing => 0,
        };
        Ok(self.pool.reserve_besides(bytes, why, kept)?)
    }

    /// Calls `look` with the last commit, and the limits as of this commit.
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
