//! Keeping to quotas and to the reservations of others.
//!
//! What a dataset takes is known as of the last commit. What is written since is counted from above, by what is set
//! aside for it, and for all datasets below the quota together. Where that would be too much, a commit tells what
//! it really is. So the nearer a quota is, the more often there is a commit, and what is written is never more than
//! it allows, but for a few pages of metadata that operations under way at that moment take.

use pool::{Limits, Reservation, ReserveFor};

use crate::core::dataset::Dataset;
use crate::core::settings::Settings;
use crate::error::Result;

/// What an operation on names and attributes is counted as. Most change pages that another one of the same
/// transaction group has changed before.
pub(crate) const OPERATION_CHARGE: u64 = 8 << 10;

impl Dataset {
    /// Counts bytes that are about to be written, if quotas allow them.
    ///
    /// # Errors
    /// [`vfs::Error::Quota`] if they do not, also after a commit and when what waits to be freed has been.
    pub(crate) fn charge(&self, settings: &Settings, bytes: u64) -> Result<()> {
        if !settings.limited || self.try_charge(bytes)? {
            return Ok(());
        }
        let free = || {
            // What was removed is given back by a commit after the one that removed it.
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

    /// Reserves space in the pool, and leaves what reservations keep for others.
    pub(crate) fn reserve_in_pool(
        &self,
        settings: &Settings,
        bytes: u64,
        why: ReserveFor,
    ) -> Result<Reservation> {
        let kept = match why {
            ReserveFor::Freeing | ReserveFor::FreeingAlone => {
                return Ok(self.pool.reserve_to_free(bytes)?);
            }
            ReserveFor::Writing if settings.limited => self.with_limits(|_, limits| limits.kept)?,
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
