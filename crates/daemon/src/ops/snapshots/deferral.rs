//! Destroying snapshots as soon as nothing keeps them.

use std::sync::Arc;

use protocol::api::{DeferredReport, command};

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;

impl Daemon {
    /// Destroys snapshots, and has those that something keeps destroyed when nothing does any more.
    pub(crate) fn destroy_later(
        self: &Arc<Self>,
        wanted: &command::DestroyLater,
        context: &mut CallerContext<'_>,
    ) -> Result<DeferredReport> {
        let (name, recursive) = (wanted.name.as_str(), wanted.recursive);
        let Some((dataset, _)) = name.split_once('@') else {
            return Err(Failure::usage(format!(
                "'{name}' is not a snapshot; -d is for snapshots that are held or have clones"
            )));
        };
        let active = self.pool_of(dataset)?;
        let split = active.pool.deferral(name, recursive)?;
        let later = active.names_of(&split.later)?;
        if wanted.dry_run {
            let destroyed = active.names_of(&split.now)?;
            return Ok(DeferredReport { destroyed, later });
        }
        let now = || Ok(active.pool.deferral(name, recursive)?.now);
        let destroyed = self.take_away(&active, wanted.force, now, context, |context| {
            let origin = context.origin();
            Ok(active.pool.destroy_or_defer(name, recursive, &origin)?)
        })?;
        Ok(DeferredReport { destroyed, later })
    }
}
