//! The devices of a new pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, FileDevice};
use objects::ObjectDevice;
use objects::store::{ObjectStore, executor};
use parking_lot::Mutex;
use protocol::api::{FailureKind, command};
use protocol::device_name::DeviceName;
use store::{CreateOptions, NewGroup, Store};

use crate::failure::{Failure, Result};
use crate::host::process::system::{new_guid, now_secs};
use crate::ops::datasets::spec::checked;
use crate::ops::devices::meters;
use crate::state::daemon::Daemon;

/// The devices that were made for a pool. They are removed again if the command fails.
#[derive(Default)]
pub(crate) struct MadeDevices(Mutex<Vec<MadeDevice>>);

enum MadeDevice {
    File(PathBuf),
    Objects(Arc<dyn ObjectStore>),
}

impl MadeDevices {
    pub(crate) fn add_objects(&self, store: Arc<dyn ObjectStore>) {
        self.0.lock().push(MadeDevice::Objects(store));
    }

    pub(crate) fn keep(&self) {
        self.0.lock().clear();
    }
}

impl Drop for MadeDevices {
    fn drop(&mut self) {
        for made in self.0.lock().drain(..) {
            match made {
                MadeDevice::File(path) => drop(std::fs::remove_file(path)),
                MadeDevice::Objects(store) => remove_objects(store),
            }
        }
    }
}

/// Removes a device that no pool uses.
fn remove_objects(store: Arc<dyn ObjectStore>) {
    let place = store.address();
    if let Err(error) = ObjectDevice::remove(store, executor()) {
        tracing::warn!(%error, "objects stay at {place}; to remove them: strongroom pool labelclear -f {place}");
    }
}

impl Daemon {
    /// Checks whether a pool can be made with these options. It writes nothing, and asks for no key.
    pub(crate) fn try_create(&self, new: &command::PoolCreate) -> Result<()> {
        checked(&new.props)?;
        let made = MadeDevices::default();
        let groups = self.open_groups(new, &made)?;
        let spares = self.open_devices(&new.devices.spares, new, &made)?;
        let members = groups.iter().flat_map(|group| &group.devices);
        let options = CreateOptions {
            pool_guid: new_guid(),
            device_guids: members.chain(&spares).map(|_| new_guid()).collect(),
            created: now_secs(),
            force: new.force,
        };
        Ok(Store::check_groups(&groups, &spares, &options)?)
    }

    pub(crate) fn open_groups(
        &self,
        new: &command::PoolCreate,
        made: &MadeDevices,
    ) -> Result<Vec<NewGroup>> {
        let groups = new.devices.groups.iter();
        groups
            .map(|group| {
                Ok(NewGroup {
                    devices: self.open_devices(&group.devices, new, made)?,
                    parity: group.parity,
                })
            })
            .collect()
    }

    pub(crate) fn open_devices(
        &self,
        paths: &[PathBuf],
        new: &command::PoolCreate,
        made: &MadeDevices,
    ) -> Result<Vec<Arc<dyn BlockDevice>>> {
        let user = meters::pool_user(&new.pool);
        let open = |path: &PathBuf| match DeviceName::parse(path) {
            DeviceName::Object(text) if new.dry_run => self.rehearse_object_device(text, new.size),
            DeviceName::Object(text) => {
                self.make_object_device(text, new.size, made)?;
                self.open_device(path, DeviceAccess::Exclusive, &user)
            }
            name if name.is_path() => {
                let device = open_file(path, new, made)?;
                let device = meters::metered_file(device);
                self.refuse_used(&device, None)?;
                Ok(device)
            }
            _ => {
                let device = self.open_device(path, DeviceAccess::Exclusive, &user)?;
                self.refuse_used(&device, None)?;
                Ok(device)
            }
        };
        paths.iter().map(open).collect()
    }
}

/// Opens a file or disk for a new pool, or makes the file.
fn open_file(path: &Path, new: &command::PoolCreate, made: &MadeDevices) -> Result<FileDevice> {
    let Some(size) = new.size else {
        return FileDevice::open(path, DeviceAccess::Exclusive).map_err(|error| {
            let missing = matches!(&error, block::Error::Open { source, .. }
                if source.kind() == std::io::ErrorKind::NotFound);
            let mut failure = Failure::from(error);
            if missing {
                failure.message += "; to make the file, say how large: -s SIZE";
            }
            failure
        });
    };
    if new.dry_run {
        return FileDevice::rehearse(path, size).map_err(not_made);
    }
    let device = FileDevice::create(path, size).map_err(not_made)?;
    made.0.lock().push(MadeDevice::File(path.to_owned()));
    Ok(device)
}

/// The failure of `-s`.
fn not_made(error: block::Error) -> Failure {
    let mut failure = Failure::from(error);
    if failure.kind == FailureKind::Exists {
        failure.message += "; to use the file that is there, run the command without -s";
    }
    failure
}
