//! The limit for the number of mounts: the property `mount_limit`. Each mount needs threads and memory of the daemon.

use pool::Entry;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::pools::active_pool::ActivePool;

const PROPERTY: &str = "mount_limit";

impl ActivePool {
    /// Refuses another mount of a dataset or snapshot, if its dataset or one above it has as many as it may have.
    pub(super) fn check_mount_limit(&self, entry: &Entry) -> Result<()> {
        let mut at = entry.id;
        while let Ok(holder) = self.pool.entry(at) {
            let limit = holder.props.get(PROPERTY).map(|limit| limit.parse::<u64>());
            if let Some(Ok(limit)) = limit.filter(|_| !holder.is_snapshot())
                && self.mounts_below(holder.id) >= limit
            {
                let name = self.pool.name_of(holder.id)?;
                return Err(Failure::new(
                    FailureKind::NoSpace,
                    format!("{name}: {limit} mounts are the {PROPERTY} there; unmount some first"),
                ));
            }
            at = holder.parent;
        }
        Ok(())
    }

    /// The number of mounts of a dataset, its snapshots and everything below.
    fn mounts_below(&self, id: u64) -> u64 {
        let mounted: Vec<u64> = self.mounts.lock().keys().copied().collect();
        let below = mounted.into_iter().filter(|at| self.is_below(*at, id));
        below.count() as u64
    }

    /// Returns whether a dataset or snapshot is `above`, its snapshot, or below it.
    fn is_below(&self, mut at: u64, above: u64) -> bool {
        while at != above {
            match self.pool.entry(at) {
                Ok(entry) => at = entry.parent,
                Err(_) => return false,
            }
        }
        true
    }
}
