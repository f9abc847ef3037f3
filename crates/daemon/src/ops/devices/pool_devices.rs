//! Devices of pools that are imported, by this process or another one of this machine. No command takes them for another
//! pool, whatever path they have and whatever is forced.

use block::BlockDevice;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::host::pool_lock::PoolLock;
use crate::ops::devices::commands::is_away;
use crate::state::daemon::Daemon;

impl Daemon {
    /// Refuses a device that an imported pool uses. The pool with the guid `own` may take a device back that it does not
    /// use now.
    pub(crate) fn refuse_used(&self, device: &dyn BlockDevice, own: Option<u64>) -> Result<()> {
        let Ok(found) = store::probe(device) else {
            return Ok(());
        };
        let path = device.name();
        let pools = self.pools();
        let Some(active) = { pools.iter() }.find(|it| it.pool.guid() == found.pool_guid) else {
            let shown = found.pool_guid.to_string();
            return PoolLock::check(&shown, found.pool_guid)
                .map_err(|failure| failure.context(format_args!("{path} is in use")));
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
