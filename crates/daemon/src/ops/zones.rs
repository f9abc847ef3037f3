//! What zones ask of other commands: their roots keep their names, and the socket is open to tenants.

use std::sync::Arc;

use pool::Entry;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::host::listen::open_to_others;
use crate::state::active_pool::ActivePool;
use crate::state::daemon::Daemon;
use crate::state::zones::zone::Zone;

impl Daemon {
    /// The root of a zone, if its pool is imported.
    pub(crate) fn root_of(&self, zone: &Zone) -> Option<(Arc<ActivePool>, Arc<Entry>)> {
        let mut pools = self.pools().into_iter();
        let imported = pools.find(|imported| imported.pool.guid() == zone.is.pool)?;
        let root = imported.pool.entry(zone.is.dataset).ok()?;
        zone.is_root(zone.is.pool, &root)
            .then_some((imported, root))
    }

    /// Refuses to destroy or rename the root of a zone: whatever the tenant does goes by its name.
    pub(crate) fn keep_zone_roots(
        &self,
        imported: &ActivePool,
        entries: &[Arc<Entry>],
    ) -> Result<()> {
        let guid = imported.pool.guid();
        let zones = self.zones.all.lock();
        let is_root = |entry: &&Arc<Entry>| zones.values().any(|zone| zone.is_root(guid, entry));
        match entries.iter().find(is_root) {
            None => Ok(()),
            Some(root) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{}' is the root of a zone; 'strongroom zone list' shows of which, and \
                     'zone destroy' takes it away first",
                    imported.pool.name_of(root.id)?
                ),
            )),
        }
    }

    /// Whether there are zones for others than root.
    fn has_tenants(&self) -> bool {
        let zones = self.zones.all.lock();
        zones.values().any(|zone| zone.is.owner.is_some())
    }

    /// Opens the sockets to those who are not root and have something to do there.
    pub(crate) fn open_to_delegates(&self) {
        let has_delegates = self.has_delegates();
        let passes = has_delegates || self.has_tenants();
        if let Err(error) = open_to_others(&self.socket, has_delegates, passes) {
            tracing::warn!(%error, "who may connect could not be changed");
        }
    }
}
