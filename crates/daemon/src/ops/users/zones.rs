//! Rules of zones for other commands: the roots of zones stay, and the socket is open to tenants.

use std::sync::Arc;

use pool::Entry;

use crate::host::listen::open_to_others;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;
use crate::state::zones::zone::Zone;

impl Daemon {
    /// The root of a zone, if its pool is imported.
    pub(crate) fn root_of(&self, zone: &Zone) -> Option<(Arc<ActivePool>, Arc<Entry>)> {
        let mut pools = self.pools().into_iter();
        let active = pools.find(|active| active.pool.guid() == zone.is.pool)?;
        let root = active.pool.entry(zone.is.dataset).ok()?;
        zone.is_root(zone.is.pool, &root).then_some((active, root))
    }

    /// Returns whether there are zones of users other than root.
    fn has_tenants(&self) -> bool {
        let zones = self.zones.all();
        zones.iter().any(|zone| zone.is.owner.is_some())
    }

    /// Opens the sockets to users other than root, if one of them has a permission or a zone, or there is a token.
    pub(crate) fn open_to_delegates(&self) {
        self.tokens.prune();
        // A caller with a token can connect as any user.
        let has_delegates = self.has_delegates() || !self.tokens.is_empty();
        let passes = has_delegates || self.has_tenants();
        if let Err(error) = open_to_others(&self.socket, has_delegates, passes) {
            tracing::warn!(%error, "who may connect could not be changed");
        }
    }
}
