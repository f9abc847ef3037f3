//! `pool labelclear`: erases the labels of a device, so that it belongs to no pool.

use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess};
use pool::{DeviceInfo, PoolState};
use protocol::api::FailureKind;
use protocol::device_name::DeviceName;

use crate::failure::{Failure, Result};
use crate::ops::devices::pool_devices::{refuse_retained, superblock};
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::front_end::ExclusiveUse;

impl Daemon {
    /// Overwrites the labels on a device, with the superblocks and wrapped keys beside them. Refuses a device in use.
    /// With `force` its pool may be exported, or another host may use it.
    pub(crate) fn clear_label(
        &self,
        path: &Path,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        self.may_go(&ExclusiveUse::Devices(&[path.to_owned()]))?;
        if let DeviceName::Object(text) = DeviceName::parse(path) {
            return self.clear_objects(text, force, context);
        }
        let user = "a command that clears its label";
        let device = self.open_device(path, DeviceAccess::Exclusive, user)?;
        self.refuse_needed_device(path, &device, force)?;
        tracing::info!(device = %path.display(), "its label is cleared");
        Ok(store::clear_label(device.as_ref())?)
    }

    /// Removes the objects of a device in an object store, if no pool needs them. With `force` they need not be readable.
    fn clear_objects(
        &self,
        text: &str,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let path = Path::new(text);
        let checked = self
            .open_device(
                path,
                DeviceAccess::ReadOnly,
                "a command that removes its objects",
            )
            .and_then(|device| self.refuse_needed_device(path, &device, force));
        if let Err(mut failure) = checked {
            // Objects that cannot be read may be of a pool with retained snapshots. Without a pool they are leftovers.
            if !force || failure.kind != FailureKind::NotFound {
                if force && failure.kind == FailureKind::Damaged {
                    failure.message += "; its pool may have retained snapshots: if nobody needs the pool, delete its \
                                        objects with a program of the store";
                }
                return Err(failure);
            }
        }
        let count = self.remove_objects(text)?;
        if count == 0 {
            let text = format!("{text} has no objects of a pool");
            return Err(Failure::new(FailureKind::NotFound, text));
        }
        context
            .channel
            .notice(format!("{count} objects were removed from {text}"));
        Ok(())
    }

    /// Refuses a device that a pool uses, or may still need.
    fn refuse_needed_device(
        &self,
        path: &Path,
        device: &Arc<dyn BlockDevice>,
        force: bool,
    ) -> Result<()> {
        match store::probe(device.as_ref()) {
            Ok(found) => {
                let mut own = self.pools().into_iter();
                if !own.any(|active| active.pool.guid() == found.pool_guid) {
                    self.refuse_used(device, None)?;
                }
                self.refuse_needed(path, device, &found, force)
            }
            // A cache device holds nothing that can be lost. A device without a label has none to clear.
            Err(store::Error::NotAPool { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a device that a pool may still need.
    fn refuse_needed(
        &self,
        path: &Path,
        device: &Arc<dyn BlockDevice>,
        found: &store::DeviceIdentity,
        force: bool,
    ) -> Result<()> {
        // An image has the label of a device on a disk.
        let is_it = |device: &DeviceInfo| {
            device.guid == found.device_guid && is_on_store(&device.path) == is_on_store(path)
        };
        let path = path.display();
        let busy = |text: String| Err(Failure::new(FailureKind::Busy, text));
        for active in self.pools() {
            if active.pool.guid() != found.pool_guid {
                continue;
            }
            let name = active.pool.name();
            let mut devices = active.pool.devices().into_iter();
            if devices.any(|device| is_it(&device)) {
                return busy(format!(
                    "{path} is a device of the imported pool '{name}'; take it out first: strongroom pool \
                     detach {name} {path}, or strongroom pool remove {name} {path}"
                ));
            }
            // The device left that pool while it could not be reached, or that pool is a copy of its pool.
            return refuse_retained(device, found, Some(&active.pool));
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
