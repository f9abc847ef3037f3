//! The devices of a new pool.

use std::path::PathBuf;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, FileDevice};
use protocol::api::{FailureKind, command};
use protocol::device_name::DeviceName;
use store::{CreateOptions, NewGroup, Store};

use crate::failure::{Failure, Result};
use crate::host::process::system::{new_guid, now_secs};
use crate::ops::datasets::spec::checked;
use crate::ops::devices::meters;
use crate::state::daemon::Daemon;

/// The files that were made for a new pool. They are removed again if the pool cannot be made.
#[derive(Default)]
pub(crate) struct MadeFiles(parking_lot::Mutex<Vec<PathBuf>>);

impl MadeFiles {
    pub(crate) fn keep(&self) {
        self.0.lock().clear();
    }
}

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in self.0.lock().drain(..) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Daemon {
    /// Checks whether a pool can be made with these options. It writes nothing, and asks for no key.
    pub(crate) fn try_create(&self, new: &command::PoolCreate) -> Result<()> {
        checked(&new.props)?;
        let made = MadeFiles::default();
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
        made: &MadeFiles,
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
        made: &MadeFiles,
    ) -> Result<Vec<Arc<dyn BlockDevice>>> {
        let mut opened: Vec<Arc<dyn BlockDevice>> = Vec::new();
        for path in paths {
            if !DeviceName::parse(path).is_path() {
                let user = meters::pool_user(&new.pool);
                let device = self.open_device(path, DeviceAccess::Exclusive, &user)?;
                self.refuse_used(&*device, None)?;
                opened.push(device);
                continue;
            }
            let device = match new.size {
                Some(size) if new.dry_run => FileDevice::rehearse(path, size).map_err(not_made)?,
                Some(size) => {
                    let device = FileDevice::create(path, size).map_err(not_made)?;
                    made.0.lock().push(path.clone());
                    device
                }
                None => FileDevice::open(path, DeviceAccess::Exclusive).map_err(|error| {
                    let missing = matches!(&error, block::Error::Open { source, .. }
                    if source.kind() == std::io::ErrorKind::NotFound);
                    let failure = Failure::from(error);
                    match missing {
                        true => Failure::new(
                            failure.kind,
                            format!(
                                "{}; to make the file, say how large: -s SIZE",
                                failure.message
                            ),
                        ),
                        false => failure,
                    }
                })?,
            };
            self.refuse_used(&device, None)?;
            opened.push(meters::metered_file(device));
        }
        Ok(opened)
    }
}

/// The failure of `-s`.
fn not_made(error: block::Error) -> Failure {
    let mut failure = Failure::from(error);
    if failure.kind == FailureKind::Exists {
        failure.message += "; to use the file that is there, run the command without -s";
    }
    failure
}
