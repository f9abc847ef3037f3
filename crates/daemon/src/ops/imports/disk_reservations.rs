//! Reservations of the disks of a pool that is imported (`reservations=on`).

use std::sync::Arc;

use block::{Claimant, DeviceAccess};
use pool::{AtCheckpoint, Pool};
use protocol::api::{CheckpointUse, FailureKind, command};
use store::Store;

use crate::failure::{Failure, Result};
use crate::host::identity::this_claimant;
use crate::host::process::system::System;
use crate::ops::devices::meters::pool_user;
use crate::ops::imports::last_host::await_no_other;
use crate::ops::imports::scan::FoundPool;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::devices::remote_devices::SCAN;

/// The property of the root dataset that asks for reservations.
const PROPERTY: &str = "reservations";
/// The advice for a user whose disks cannot be reserved.
const WAY_OUT: &str = "-o reservations=off imports the pool without reservations, and sets the property; be sure \
    that no other machine uses the disks";

impl Daemon {
    /// Opens the devices of a pool for an import with write access, when no other host uses it. The devices are
    /// reserved if the pool asks for that.
    pub(crate) fn open_for_import(
        &self,
        candidate: &FoundPool,
        import: &command::PoolImport,
        name: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<Store> {
        let open = |by: Option<Claimant>| {
            let user = pool_user(name);
            self.open_claimed(&candidate.paths, by.as_ref(), import.force, &user)
        };
        let by = this_claimant(candidate.guid);
        let is_wanted = self.wants_claims(candidate, import);
        if is_wanted != Some(true) {
            let store = open(None)?;
            // A power cut can come between a reservation and the commit of the property.
            let is_left_over = store.check_unreserved().is_err();
            if candidate.has_fences() {
                return Ok(store);
            }
            if !is_left_over && (is_wanted.is_some() || store.claim(&by).is_err()) {
                await_no_other(&store, false, context)?;
                return Ok(store);
            }
        }
        match open(Some(by)) {
            Ok(store) => {
                await_no_other(&store, false, context)?;
                Ok(store)
            }
            Err(mut failure) if failure.kind != FailureKind::Busy => {
                if is_wanted == Some(true) && open(None).is_ok() {
                    failure.message += &format!("; {WAY_OUT}");
                }
                Err(failure)
            }
            Err(mut failure) if !import.force => {
                failure.message +=
                    ". If that machine does not use the pool any more, import with -f";
                Err(failure)
            }
            Err(_) => {
                await_no_other(&open(None)?, true, context)?;
                open(Some(by.by_force()))
            }
        }
    }

    /// Returns whether the state that is imported asks for reservations. `None` if it cannot be read.
    fn wants_claims(&self, candidate: &FoundPool, import: &command::PoolImport) -> Option<bool> {
        if import.without_reservations {
            return Some(false);
        }
        if import.checkpoint != CheckpointUse::Rewind {
            return candidate.wants_claims;
        }
        let store = self.open_store(&candidate.paths, DeviceAccess::ReadOnly, SCAN);
        let store = Arc::new(store.ok()?);
        let pool = Pool::open_at(store, Arc::new(System), true, AtCheckpoint::Rewind);
        pool.ok()?.multihost().wants_claims().ok()
    }
}

/// Adds to the failure of an import which devices could not be reserved.
pub(crate) fn explain_unreserved(mut failure: Failure, passed_over: &[String]) -> Failure {
    if !passed_over.is_empty() {
        failure.message += &format!("; {}; {WAY_OUT}", passed_over.join("; "));
    }
    failure
}

/// Reserves the devices of an imported pool whose property the search could not read, or that changed since. An import
/// that cannot be undone succeeds without.
pub(crate) fn claim_late(
    pool: &Pool,
    import: &command::PoolImport,
    context: &mut CallerContext<'_>,
) -> Result<()> {
    if import.without_reservations
        || pool.multihost().is_claimed()
        || !pool.multihost().wants_claims()?
    {
        return Ok(());
    }
    let claimed = pool.multihost().claim_devices(&this_claimant(pool.guid()));
    let can_be_undone = import.checkpoint == CheckpointUse::Keep && !import.without_logs;
    match claimed {
        // Another host may have changed what was read before.
        Ok(()) if can_be_undone => Err(Failure::new(
            FailureKind::Busy,
            format!(
                "pool '{}' changed while it was imported; try again",
                pool.name()
            ),
        )),
        Err(error) if can_be_undone => Err(error.into()),
        Ok(()) => Ok(()),
        Err(error) => {
            context.channel.notice(format!(
                "the pool has reservations=on, but its disks do not refuse the writes of other machines: {error}"
            ));
            Ok(())
        }
    }
}

/// Ends reservations that the imported pool does not ask for.
pub(crate) fn release_unwanted(
    pool: &Pool,
    import: &command::PoolImport,
    context: &CallerContext<'_>,
) -> Result<()> {
    if import.without_reservations && pool.multihost().wants_claims()? {
        let off = (PROPERTY.to_owned(), Some("off".to_owned()));
        pool.set_props(&[pool.name()], &[off], &context.origin())?;
    }
    if pool.multihost().is_claimed() && !pool.multihost().wants_claims()? {
        pool.multihost().release_devices();
    }
    Ok(())
}
