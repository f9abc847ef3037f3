//! The targets of pools, as a front end.

use std::sync::Arc;

use pool::Entry;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::front_end::{ExclusiveUse, FrontEnd, FrontEndGuard, offers_nothing};
use crate::state::pools::active_pool::ActivePool;

/// The targets of pools. `ExportFrontEnd`, the front end of other exports, holds the lock that both change under.
pub(crate) struct HaTargets;

impl FrontEnd<Daemon> for HaTargets {
    /// A cluster decides which machine serves a pool: nothing starts by itself.
    fn start(&self, _daemon: &Arc<Daemon>) {}

    fn restore(&self, daemon: &Daemon) {
        daemon.restore_ha();
    }

    fn awaits(&self, daemon: &Daemon, active: &ActivePool, entry: &Entry) -> Result<bool> {
        let all = daemon.served.0.lock();
        let serving = all.get(&active.pool.guid());
        Ok(serving.is_some_and(|it| it.plan.units.contains_key(&entry.guid)))
    }

    fn may_go(&self, daemon: &Daemon, going: &ExclusiveUse<'_>) -> Result<()> {
        let ExclusiveUse::Guid(active) = going else {
            return Ok(());
        };
        let pool = active.pool.name();
        match daemon.served.0.lock().contains_key(&active.pool.guid()) {
            false => Ok(()),
            true => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "targets of '{pool}' are served; stop that first: strongroom ha stop {pool}"
                ),
            )),
        }
    }

    fn hold<'a>(&self, daemon: &'a Daemon) -> Option<Box<dyn FrontEndGuard + 'a>> {
        Some(Box::new(HeldTargets(daemon)))
    }

    fn forget(&self, daemon: &Daemon, pool: u64, is_gone: &dyn Fn(&str) -> bool) -> Result<()> {
        let _changing = daemon.exported.changing.lock();
        let mut all = daemon.served.0.lock();
        let Some(serving) = all.get_mut(&pool) else {
            return Ok(());
        };
        let failures = serving.suspend(is_gone, "it is gone");
        let plan = &mut serving.plan;
        plan.units.retain(|_, unit| !is_gone(&unit.name));
        for target in plan.targets.values_mut() {
            target
                .views
                .retain(|view| plan.units.contains_key(&view.unit));
        }
        serving
            .waiting
            .retain(|guid, _| plan.units.contains_key(guid));
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    fn close(&self, daemon: &Daemon, force: bool) -> Result<()> {
        let _changing = daemon.exported.changing.lock();
        let targets = daemon.ha_targets().into_iter();
        let mut sessions = targets.map(|(name, target)| (name, target.sessions().len()));
        let used = sessions.find(|(_, sessions)| *sessions > 0);
        if let (Some((name, sessions)), false) = (used, force) {
            return Err(iscsi::Error::InUse { name, sessions }.into());
        }
        let pools: Vec<u64> = daemon.served.0.lock().keys().copied().collect();
        let failures = pools.into_iter().flat_map(|pool| daemon.end_ha(pool));
        let failures: Vec<Failure> = failures.collect();
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    offers_nothing!(Daemon: prepare offer withdraw withdraw_what_can stop);
}

impl Daemon {
    /// Forgets the targets of a pool that is not imported any more.
    pub(crate) fn forget_ha(&self, active: &ActivePool) {
        let _changing = self.exported.changing.lock();
        for failure in self.end_ha(active.pool.guid()) {
            let reason = failure.message;
            tracing::warn!(reason, "a unit of an exported pool is in use");
        }
    }
}

/// The targets of pools while this thread alone may change them.
struct HeldTargets<'a>(&'a Daemon);

impl FrontEndGuard for HeldTargets<'_> {
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()> {
        let is_one = |volume: &str| volumes.iter().any(|name| name == volume);
        let mut all = self.0.served.0.lock();
        let failures = all.values_mut().flat_map(|it| it.suspend(is_one, why));
        let failures: Vec<Failure> = failures.collect();
        match failures.into_iter().next() {
            None => Ok(()),
            Some(failure) => Err(Failure::new(FailureKind::Busy, failure.message)),
        }
    }
}
