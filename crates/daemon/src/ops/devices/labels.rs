//! `pool labelclear`: erases the labels of a device, so that it belongs to no pool.

use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess};
use pool::{PoolState, Superblock};
use protocol::api::FailureKind;
use store::Store;

use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::front_end::ExclusiveUse;

impl Daemon {
    /// Overwrites the labels on a device, with the superblocks and wrapped keys beside them. Refuses a device in use.
    /// With `force` its pool may be exported, or another host may use it.
    pub(crate) fn clear_label(&self, path: &Path, force: bool) -> Result<()> {
        self.may_go(&ExclusiveUse::Devices(&[path.to_owned()]))?;
        let user = "a command that clears its label";
        let device = self.open_device(path, DeviceAccess::Exclusive, user)?;
        match store::probe(device.as_ref()) {
            Ok(found) => {
                let mut own = self.pools().into_iter();
                if !own.any(|active| active.pool.guid() == found.pool_guid) {
                    self.refuse_used(&*device, None)?;
                }
                self.refuse_needed(path, &device, &found, force)?;
            }
            // A cache device holds nothing that can be lost. A device without a label fails below.
            Err(store::Error::NotAPool { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        tracing::info!(device = %path.display(), "its label is cleared");
        Ok(store::clear_label(device.as_ref())?)
    }

    /// Refuses a device that a pool may still need.
    fn refuse_needed(
        &self,
        path: &Path,
        device: &Arc<dyn BlockDevice>,
        found: &store::DeviceIdentity,
        force: bool,
    ) -> Result<()> {
        let path = path.display();
        let busy = |text: String| Err(Failure::new(FailureKind::Busy, text));
        for active in self.pools() {
            if active.pool.guid() != found.pool_guid {
                continue;
            }
            let name = active.pool.name();
            let mut devices = active.pool.devices().into_iter();
            if devices.any(|device| device.guid == found.device_guid) {
                return busy(format!(
                    "{path} is a device of the imported pool '{name}'; take it out first: strongroom pool \
                     detach {name} {path}, or strongroom pool remove {name} {path}"
                ));
            }
            // The device left that pool while it could not be reached.
            return Ok(());
        }
        if force {
            return Ok(());
        }
        let mut absent = self.pool_table.absent().into_iter();
        let is_its = |known: &crate::state::memory::KnownPool| {
            known.is_of(found.pool_guid) && known.has_device(found.device_guid)
        };
        if let Some((name, _)) = absent.find(|(_, known)| is_its(known)) {
            return busy(format!(
                "{path} is a device of the pool '{name}', which could not be imported; to take it away from \
                 that pool, use -f"
            ));
        }
        let what = match superblock(device) {
            Some(found) if found.state == PoolState::Destroyed => return Ok(()),
            Some(found) if found.state == PoolState::Active => {
                format!(
                    "the pool '{}', which host '{}' may be using",
                    found.name, found.host.name
                )
            }
            Some(found) => format!("the pool '{}', which was exported", found.name),
            None => format!("the pool with the guid {}", found.pool_guid),
        };
        busy(format!(
            "{path} belongs to {what}; to take it away from that pool, use -f"
        ))
    }
}

/// Reads the newest superblock on a device, if there is one.
fn superblock(device: &Arc<dyn BlockDevice>) -> Option<Superblock> {
    let store = Store::open(vec![Arc::clone(device)]).ok()?;
    let superblocks = store.superblocks().ok()?;
    let (txg, payload) = superblocks.first()?;
    Superblock::decode(*txg, payload).ok()
}
