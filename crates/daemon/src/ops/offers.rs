//! What commands ask of all front ends.

use crate::failure::Result;
use crate::state::active_pool::ActivePool;
use crate::state::daemon::Daemon;
use crate::state::front_end::{Going, Held};

impl Daemon {
    /// Offers what could not be offered so far.
    pub(crate) fn restore_offers(&self) {
        self.front_ends.iter().for_each(|each| each.restore(self));
    }

    /// Refuses to take away what a front end offers.
    pub(crate) fn may_go(&self, going: &Going<'_>) -> Result<()> {
        let mut all = self.front_ends.iter();
        all.try_for_each(|each| each.may_go(self, going))
    }

    /// Nothing is offered again until this is dropped. It comes before the lock of a pool.
    fn hold_offers(&self) -> HeldOffers<'_> {
        HeldOffers(
            self.front_ends
                .iter()
                .filter_map(|each| each.hold(self))
                .collect(),
        )
    }

    /// Does something that takes a pool away. With `force` what is offered of its volumes ends first, until the
    /// pool is there again.
    pub(crate) fn without_offers<T>(
        &self,
        imported: &ActivePool,
        force: bool,
        why: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let in_use = || {
            let volumes = imported.volumes_in_use().into_iter();
            volumes.map(|id| Ok(imported.pool.name_of(id)?)).collect()
        };
        self.without_offers_of(in_use, force, why, work)
    }

    /// Does something that takes volumes away. With `force` what is offered of them ends first; nothing is
    /// offered again until the work is done. If any of it fails, what can still be offered is offered again.
    pub(crate) fn without_offers_of<T>(
        &self,
        volumes: impl FnOnce() -> Result<Vec<String>>,
        force: bool,
        why: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !force {
            return work();
        }
        let offers = self.hold_offers();
        let suspended = volumes().and_then(|volumes| offers.suspend(&volumes, why));
        let result = suspended.and_then(|()| work());
        drop(offers);
        if result.is_err() {
            self.restore_offers();
        }
        result
    }

    /// Forgets what is offered of volumes of a pool that are gone.
    pub(crate) fn forget_offers(
        &self,
        imported: &ActivePool,
        is_gone: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let mut all = self.front_ends.iter();
        let pool = imported.pool.guid();
        all.try_for_each(|each| each.forget(self, pool, &is_gone))
    }

    /// Lets go of all devices that are offered.
    pub(crate) fn close_offers(&self, force: bool) -> Result<()> {
        let all = self.front_ends.iter();
        // With force the failure of one keeps no other.
        let closed = all.map(|each| each.close(self, force));
        match force {
            true => closed.fold(Ok(()), Result::and),
            false => closed.collect(),
        }
    }
}

/// All front ends, each of which only one thread changes.
struct HeldOffers<'a>(Vec<Box<dyn Held + 'a>>);

impl HeldOffers<'_> {
    /// See [`Held::suspend`].
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()> {
        let mut all = self.0.iter();
        all.try_for_each(|held| held.suspend(volumes, why))
    }
}
