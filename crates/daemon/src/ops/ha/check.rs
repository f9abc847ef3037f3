//! A check of whether this machine could take a pool over, usually from the machine that waits for that.
//!
//! It reads the devices and writes to none, as a search for pools does, so the machine that has the pool goes on. What it
//! reads may be replaced meanwhile; then the check fails, and can be repeated. A pool that it opens is no pool of the daemon:
//! nothing is mounted or served, and its keys are gone with it.

use std::sync::Arc;

use block::DeviceAccess;
use pool::Pool;
use protocol::api::command;

use super::plan::warnings;
use crate::failure::{Failure, Result};
use crate::host::pool_lock::PoolLock;
use crate::host::process::system::System;
use crate::ops::imports::scan::choose;
use crate::state::callers::channel::NonInteractive;
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::devices::remote_devices::SCAN;
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    /// Reports what would fail if this machine imported the pool and served its file.
    ///
    /// # Errors
    /// If anything would fail; the reasons are notices.
    pub(crate) fn check_ha(
        &self,
        wanted: &command::HaCheck,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let mut problems = Vec::new();
        match self.pool(&wanted.pool) {
            Ok(active) => self.look_for_problems(&active, true, &mut problems),
            Err(_) => {
                let active = self.open_for_check(wanted, &mut problems)?;
                self.look_for_problems(&active, false, &mut problems);
                let mut admin = active.lock(&Internal)?;
                active.export(&mut admin)?;
            }
        }
        for problem in &problems {
            context.channel.notice(problem.clone());
        }
        match problems.len() {
            0 => Ok(()),
            count => Err(Failure::other(format!(
                "this machine could not take over all of '{}' (reasons: {count})",
                wanted.pool
            ))),
        }
    }

    /// Opens a pool that is not imported here, for reading only.
    fn open_for_check(
        &self,
        wanted: &command::HaCheck,
        problems: &mut Vec<String>,
    ) -> Result<Arc<ActivePool>> {
        let scan = self.scan_for_pools(&wanted.search);
        let found = choose(
            scan.pools,
            Some(&wanted.pool),
            &wanted.search,
            &scan.failures,
        )?;
        let found = found.into_iter().next();
        let found = found.ok_or_else(|| Failure::other("no pool was chosen"))?;
        found.superblock.as_ref().map_err(Clone::clone)?;
        problems.extend(scan.failures.iter().map(|failure| failure.message.clone()));
        let missing = found.missing.iter();
        problems.extend(
            missing.map(|path| format!("a device is missing on this machine, last at {path}")),
        );
        if found.is_degraded && found.missing.is_empty() {
            problems.push("a device of the pool is not up to date".into());
        }
        let store = self.open_store(&found.paths, DeviceAccess::ReadOnly, SCAN)?;
        let pool = Pool::open(Arc::new(store), Arc::new(System), true)?;
        ActivePool::new(
            (pool, PoolLock::none()),
            &self.accepted,
            &self.wakeup,
            &self.events,
            &self.mounted_dirs,
            None,
        )
    }

    fn look_for_problems(&self, active: &ActivePool, is_here: bool, problems: &mut Vec<String>) {
        if let Err(failure) = check_keys(active, is_here, problems) {
            problems.push(failure.message.clone());
        }
        let plan = match self.ha_plan(active) {
            Ok((plan, _)) => plan,
            Err(failure) => return problems.push(failure.message.clone()),
        };
        if let Err(failure) = self.refuse_taken(active.pool.guid(), &plan) {
            problems.push(failure.message.clone());
        }
        // Without these a pool is served as it is meant to be.
        let missing = plan.missing.iter().map(ToString::to_string);
        let unnumbered = warnings(&plan)
            .into_iter()
            .filter(|_| !plan.unnumbered.is_empty());
        problems.extend(missing.chain(unnumbered));
        let refused = plan.units.values().filter_map(|unit| {
            let why = unit.refused.as_ref()?;
            Some(format!("'{}' would not be served: {why}", unit.name))
        });
        problems.extend(refused);
        let places: std::collections::BTreeSet<_> = plan
            .targets
            .values()
            .flat_map(|target| &target.places)
            .collect();
        for place in places {
            let is_served = self.exported.served_at(place).is_some();
            if let (false, Err(failure)) = (is_served, place.try_portal()) {
                problems.push(failure.message.clone());
            }
        }
    }
}

/// Tries the key sources of a pool, without a prompt. The keys of a pool that was opened for the check are loaded, because
/// the file may be in an encrypted dataset.
fn check_keys(active: &ActivePool, is_here: bool, problems: &mut Vec<String>) -> Result<()> {
    let heads = active.all_heads()?;
    for root in heads.iter().filter(|entry| entry.key_root == entry.id) {
        let mut nobody = NonInteractive::default();
        if let Err(failure) = active.load_key(root, &[], is_here, &Internal, &mut nobody) {
            problems.push(failure.message.clone());
        }
    }
    Ok(())
}
