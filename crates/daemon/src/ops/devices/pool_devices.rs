//! Devices of pools that are imported, by this process or another one of this machine. No command takes them for another
//! pool, whatever path they have and whatever is forced.

use std::sync::Arc;

use block::BlockDevice;
use pool::{PoolState, Superblock};
use protocol::api::FailureKind;
use store::Store;

use crate::failure::{Failure, Result};
use crate::host::pool_lock::PoolLock;
use crate::ops::devices::commands::is_away;
use crate::state::daemon::Daemon;

impl Daemon {
    /// Refuses a device that an imported pool uses, or whose pool has retained snapshots. The pool with the guid `own` may take a device back that it does not
    /// use now.
    pub(crate) fn refuse_used(
        &self,
        device: &Arc<dyn BlockDevice>,
        own: Option<u64>,
    ) -> Result<()> {
        let Ok(found) = store::probe(device.as_ref()) else {
            return Ok(());
        };
        let path = device.name();
        let pools = self.pools();
        let Some(active) = { pools.iter() }.find(|it| it.pool.guid() == found.pool_guid) else {
            let shown = found.pool_guid.to_string();
            PoolLock::check(&shown, found.pool_guid)
                .map_err(|failure| failure.context(format_args!("{path} is in use")))?;
            return refuse_retained(&path, device);
        };
        let is_own = own == Some(found.pool_guid);
        let name = active.pool.name();
        let mut devices = active.pool.devices().into_iter();
        let is_used = devices.any(|it| {
            let is_it = it.guid == found.device_guid;
            is_it && (!is_own || !is_away(&it))
        });
        match is_used {
            false => Ok(()),
            true => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "{path} is a device of the imported pool '{name}', which uses it; -f does not override this"
                ),
            )),
        }
    }
}

/// Refuses a device of a pool whose snapshots nobody may destroy yet.
fn refuse_retained(path: &str, device: &Arc<dyn BlockDevice>) -> Result<()> {
    let Some(found) = superblock(device).filter(|it| it.state != PoolState::Destroyed) else {
        return Ok(());
    };
    match found.retained_until {
        None => Ok(()),
        Some(until) => Err(Failure::from(pool::Error::Retained {
            name: format!("{path}: the pool '{}'", found.name),
            until,
            time: found.pool_time,
        })),
    }
}

/// Reads the newest superblock on a device, if there is one.
pub(crate) fn superblock(device: &Arc<dyn BlockDevice>) -> Option<Superblock> {
    let store = Store::open(vec![Arc::clone(device)]).ok()?;
    let superblocks = store.superblocks().ok()?;
    let (txg, payload) = superblocks.first()?;
    Superblock::decode(*txg, payload).ok()
}
