//! Calls that commands make to all front ends.

use std::sync::Arc;

use pool::Entry;
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::front_end::{ExclusiveUse, FrontEndGuard, PoolEntries, WithdrawnDatasets};
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    /// Tries again to offer what could not be offered before, and to open mappings that wait for a device.
    pub(crate) fn restore_offers(self: &Arc<Self>) {
        self.restore_mappings();
        self.front_ends.iter().for_each(|each| each.restore(self));
    }

    /// Offers those of these datasets that are offered without a command. Returns failures for the others.
    pub(crate) fn offer_datasets(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        entries: &[Arc<Entry>],
        owner: Caller,
    ) -> Vec<Failure> {
        let all = self.front_ends.iter();
        all.flat_map(|each| each.offer(self, active, entries, owner))
            .collect()
    }

    /// Ends the use of datasets and volumes, to change or remove them. If the use of one cannot be ended, all front
    /// ends offer again what they offered.
    pub(crate) fn withdraw(
        self: &Arc<Self>,
        wanted: &[PoolEntries<'_>],
        force: bool,
    ) -> Result<WithdrawnOffers> {
        for (active, id) in wanted.iter().flat_map(each) {
            active.close_volume(*id, force)?;
        }
        let mut done = WithdrawnOffers::default();
        for front_end in self.front_ends {
            match front_end.withdraw(self, wanted, force) {
                Ok(withdrawn) => done.0.extend(withdrawn),
                Err(failure) => return Err(self.back_again(done, failure)),
            }
        }
        let mut wanted = wanted.iter();
        match wanted.try_for_each(|(active, ids)| active.await_closed(ids)) {
            Ok(()) => Ok(done),
            Err(failure) => Err(self.back_again(done, failure)),
        }
    }

    /// Offers again what was withdrawn in vain.
    fn back_again(self: &Arc<Self>, done: WithdrawnOffers, why: Failure) -> Failure {
        for failure in done.offer_again(self) {
            tracing::error!(reason = failure.message, "could not be offered again");
        }
        why
    }

    /// Withdraws datasets by force, and offers nothing again later. Returns failures for what could not be
    /// withdrawn.
    pub(crate) fn withdraw_what_can(&self, wanted: &[PoolEntries<'_>]) -> Vec<Failure> {
        let volumes = wanted.iter().flat_map(each);
        let in_use = volumes.filter_map(|(active, id)| active.close_volume(*id, true).err());
        let mut failures: Vec<Failure> = in_use.collect();
        let all = self.front_ends.iter();
        failures.extend(all.flat_map(|each| each.withdraw_what_can(wanted)));
        failures
    }

    /// Refuses to remove what a front end offers.
    pub(crate) fn may_go(&self, going: &ExclusiveUse<'_>) -> Result<()> {
        let mut all = self.front_ends.iter();
        all.try_for_each(|each| each.may_go(self, going))
    }

    /// Takes the locks of all front ends: nothing is offered again until the result is dropped. They come before the
    /// lock of a pool.
    fn hold_offers(&self) -> HeldOffers<'_> {
        HeldOffers(
            self.front_ends
                .iter()
                .filter_map(|each| each.hold(self))
                .collect(),
        )
    }

    /// Does work that removes a pool. With `force` the offers of its volumes end first, until the pool is imported
    /// again.
    pub(crate) fn without_offers<T>(
        self: &Arc<Self>,
        active: &ActivePool,
        force: bool,
        why: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let in_use = || {
            let volumes = active.volumes_in_use().into_iter();
            volumes.map(|id| Ok(active.pool.name_of(id)?)).collect()
        };
        self.without_offers_of(in_use, force, why, work)
    }

    /// Does work that removes volumes. With `force` their offers end first, and nothing is offered again until the work
    /// is done. If a part of it fails, the volumes that remain are offered again.
    pub(crate) fn without_offers_of<T>(
        self: &Arc<Self>,
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

    /// Forgets the offers of volumes of a pool that do not exist any more.
    pub(crate) fn forget_offers(
        &self,
        active: &ActivePool,
        is_gone: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let mut all = self.front_ends.iter();
        let pool = active.pool.guid();
        all.try_for_each(|each| each.forget(self, pool, &is_gone))
    }

    /// Closes all devices that are offered.
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

/// Each dataset with its pool.
fn each<'a>(
    (active, ids): &'a PoolEntries<'a>,
) -> impl Iterator<Item = (&'a Arc<ActivePool>, &'a u64)> {
    ids.iter().map(move |id| (*active, id))
}

#[derive(Default)]
pub(crate) struct WithdrawnOffers(Vec<Box<dyn WithdrawnDatasets<Daemon>>>);

impl WithdrawnOffers {
    /// See [`WithdrawnDatasets::clear`].
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|withdrawn| withdrawn.clear());
    }

    /// See [`WithdrawnDatasets::offer_again`].
    pub(crate) fn offer_again(self, daemon: &Arc<Daemon>) -> Vec<Failure> {
        let all = self.0.into_iter();
        all.flat_map(|withdrawn| withdrawn.offer_again(daemon))
            .collect()
    }
}

/// All front ends while this thread alone may change them.
struct HeldOffers<'a>(Vec<Box<dyn FrontEndGuard + 'a>>);

impl HeldOffers<'_> {
    /// See [`FrontEndGuard::suspend`].
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()> {
        let mut all = self.0.iter();
        all.try_for_each(|held| held.suspend(volumes, why))
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use pool::Reach;
    use protocol::api::FailureKind;

    use super::*;
    use crate::state::front_end::{FrontEnd, offers_nothing};
    use crate::tests::{command, create, create_pool};

    /// The calls of the front end `Notes`.
    static DONE: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    struct Notes;

    impl FrontEnd<Daemon> for Notes {
        fn withdraw(
            &self,
            _: &Arc<Daemon>,
            _: &[PoolEntries<'_>],
            _: bool,
        ) -> Result<Option<Box<dyn WithdrawnDatasets<Daemon>>>> {
            DONE.lock().push("withdraw");
            Ok(Some(Box::new(Notes)))
        }

        offers_nothing!(Daemon: prepare start restore offer withdraw_what_can may_go awaits hold forget close stop);
    }

    impl WithdrawnDatasets<Daemon> for Notes {
        fn clear(&self) {
            DONE.lock().push("clear");
        }

        fn offer_again(self: Box<Self>, _: &Arc<Daemon>) -> Vec<Failure> {
            DONE.lock().push("offer again");
            Vec::new()
        }
    }

    /// Withdraws by force only.
    struct InUse;

    impl FrontEnd<Daemon> for InUse {
        fn withdraw(
            &self,
            _: &Arc<Daemon>,
            _: &[PoolEntries<'_>],
            force: bool,
        ) -> Result<Option<Box<dyn WithdrawnDatasets<Daemon>>>> {
            match force {
                true => Ok(None),
                false => Err(Failure::new(FailureKind::Busy, "it is in use")),
            }
        }

        offers_nothing!(Daemon: prepare start restore offer withdraw_what_can may_go awaits hold forget close stop);
    }

    /// Commands ask all front ends. If one cannot withdraw, the others offer again what they offered.
    #[test]
    fn all_front_ends_withdraw_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, state) = (dir.path().join("socket"), dir.path().join("state"));
        let daemon = Daemon::new(&socket, &state, 16 << 20, &[&Notes, &InUse]);
        create_pool(&daemon, dir.path(), "tank");
        create(&daemon, "tank/a", &Vec::new());
        let done = || std::mem::take(&mut *DONE.lock());
        let destroy = |force| {
            command(|context| daemon.destroy("tank/a", Reach::Named, force, false, context))
        };
        assert_eq!(destroy(false).unwrap_err().kind, FailureKind::Busy);
        assert_eq!(done(), ["withdraw", "offer again"]);
        assert!(daemon.find("tank/a").is_ok());
        destroy(true).unwrap();
        assert_eq!(done(), ["withdraw", "clear"]);
        let export = |force| command(|context| daemon.export_pool("tank", force, context));
        assert_eq!(export(false).unwrap_err().kind, FailureKind::Busy);
        assert_eq!(done(), ["withdraw", "offer again"]);
        export(true).unwrap();
        assert_eq!(done(), ["withdraw"]);
    }
}
