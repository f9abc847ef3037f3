//! Places in object stores as devices of pools.
//!
//! The daemon reads credentials and endpoints in its own environment and profile, never in those of a caller.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{AtomicDevice, BlockDevice, DeviceAccess};
use objects::store::{
    GuaranteeOutcome, MeteredStore, ObjectStore, ProbeDepth, connect, executor, probe,
};
use objects::{Error, ObjectDevice, StoreAddress, StoreProvider};
use protocol::api::{FailureKind, StoreCheckRow, StoreProbeReport};
use protocol::device_name::DeviceName;
use protocol::object_uri::{BucketService, ObjectUri};

use crate::failure::{Failure, Result};
use crate::ops::devices::new_pool::MadeDevices;
use crate::ops::devices::stores::store_outages::{wait_without_end, watch, watch_newer};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::devices::remote_devices::SCAN;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::images::image_follower::ImageDevice;

/// The size of a device for which the user gives none. A store keeps only what is written, so it costs nothing.
const SIZE: u64 = 16 << 40;

/// A command that looks for pools waits so long for a store that does not answer.
const PATIENCE_AT_SCAN: Duration = Duration::from_secs(60);

/// A copy to an image waits so long for a store that does not answer. Then it fails, and the status of the pool says why.
const PATIENCE_OF_IMAGES: Duration = Duration::from_secs(60);

/// The user of devices whose objects are made or removed, in messages.
const USER: &str = "a command that makes or removes its objects";

impl Daemon {
    /// Opens the device at this address for `user`.
    ///
    /// # Errors
    /// The address is wrong, there is no device, the store does not answer or refuses, or something else in this daemon
    /// uses the device.
    pub(crate) fn open_object_device(
        &self,
        text: &str,
        access: DeviceAccess,
        user: &str,
    ) -> Result<Arc<dyn BlockDevice>> {
        let uri = ObjectUri::parse(text)?;
        let open = |reader: Option<&ObjectDevice>| {
            if let Some(device) = reader.map_or(Ok(None), |reader| reader.reopen(access))? {
                return Ok(device);
            }
            self.open_watched(&uri, access)
        };
        let name = uri.to_string();
        let device = self.object_devices.open(&name, access, user, open)?;
        if user != SCAN {
            wait_without_end(&name);
        }
        Ok(device)
    }

    /// Opens the device at this address for `user`, and takes it from a host that may still write to it.
    ///
    /// # Errors
    /// As [`Daemon::open_object_device`]; other hosts take the device again and again.
    pub(crate) fn take_over_object_device(
        &self,
        text: &str,
        user: &str,
    ) -> Result<Arc<dyn BlockDevice>> {
        let uri = ObjectUri::parse(text)?;
        // The end of a reader does not close its line.
        let read = || self.open_watched(&uri, DeviceAccess::ReadOnly);
        let open = |seen: Option<&_>| ObjectDevice::take_over(seen, read);
        let name = uri.to_string();
        let device = self
            .object_devices
            .open(&name, DeviceAccess::Exclusive, user, open)?;
        wait_without_end(&name);
        Ok(device)
    }

    /// Opens a device whose outages and requests are known by its name.
    fn open_watched(&self, uri: &ObjectUri, access: DeviceAccess) -> Result<ObjectDevice> {
        let meter = Arc::new(MeteredStore::new(store_at(uri)?));
        let store: Arc<dyn ObjectStore> = Arc::<MeteredStore>::clone(&meter);
        let waits = (&self.store_patience, self.outage_observer());
        let device = ObjectDevice::open(store, executor(), access, waits)?;
        let monitor = device.monitor();
        // Nothing waits for what is only looked at.
        monitor.set_patience(Some(PATIENCE_AT_SCAN));
        watch(uri.to_string(), monitor, &meter);
        Ok(device)
    }

    /// Opens the device at this address to read what another host writes. It may be in use as one that a command has read.
    ///
    /// # Errors
    /// As [`Daemon::open_object_device`].
    pub(crate) fn open_object_reader(&self, path: &Path) -> Result<Arc<ObjectDevice>> {
        let uri = ObjectUri::parse(&path.to_string_lossy())?;
        let name = uri.to_string();
        let device = match self.object_devices.kept_reader(&name) {
            Some(device) => device,
            None => Arc::new(self.open_watched(&uri, DeviceAccess::ReadOnly)?),
        };
        wait_without_end(&name);
        Ok(device)
    }

    /// Opens the newest state of a device that is read. `None` if `older` has it. The device does not wait long for its
    /// store before its patience is set.
    ///
    /// # Errors
    /// As [`Daemon::open_object_device`].
    pub(crate) fn open_newer_reader(
        &self,
        path: &Path,
        older: &ObjectDevice,
    ) -> Result<Option<Arc<ObjectDevice>>> {
        let uri = ObjectUri::parse(&path.to_string_lossy())?;
        let waits = (&self.store_patience, self.outage_observer());
        let Some(newer) = older.open_newer(waits)? else {
            return Ok(None);
        };
        let monitor = newer.monitor();
        monitor.set_patience(Some(PATIENCE_AT_SCAN));
        watch_newer(uri.to_string(), &older.monitor(), monitor);
        Ok(Some(Arc::new(newer)))
    }

    /// The image at this address, if it is that of the pool still: another host may have imported it, and use it.
    ///
    /// # Errors
    /// The store does not answer, or refuses; the image has another history, or belongs to another pool.
    pub(crate) fn own_image(&self, active: &ActivePool, text: &str) -> Result<Arc<ObjectDevice>> {
        // The connection of the copies may not know yet that another host has written.
        let device = self.open_watched(&ObjectUri::parse(text)?, DeviceAccess::ReadOnly)?;
        let device = Arc::new(device);
        let checked = active
            .pool
            .follower()
            .check_own(Arc::<ObjectDevice>::clone(&device));
        match checked {
            Ok(()) => Ok(device),
            Err(pool::Error::OtherHistory { .. }) => Err(Failure::new(
                FailureKind::Device,
                "it has changes that this pool does not have: another host uses it",
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a device of `size` bytes for a new pool. `made` removes it again if the pool cannot be made.
    ///
    /// # Errors
    /// The address is wrong or not empty, the store does not answer or refuses, or it breaks a promise on which pools rely.
    pub(crate) fn make_object_device(
        &self,
        text: &str,
        size: Option<u64>,
        made: &MadeDevices,
    ) -> Result<()> {
        let uri = ObjectUri::parse(text)?;
        let _slot = self.object_devices.reserve(&uri.to_string(), USER)?;
        let store = store_at(&uri)?;
        let size = size.unwrap_or(SIZE);
        ObjectDevice::create(&store, &executor(), size, store::header_size(size))
            .map_err(|error| advise(&uri, &error))?;
        made.add_objects(Arc::clone(&store));
        refuse_unsafe(&uri, &store)
    }

    /// Makes a device for an image of a pool, with headers of this size. `made` removes it again if the image cannot be made.
    ///
    /// # Errors
    /// As [`Daemon::make_object_device`].
    pub(crate) fn make_image_device(
        &self,
        uri: &ObjectUri,
        (size, header_size): (u64, u64),
        made: &MadeDevices,
    ) -> Result<()> {
        let _slot = self.object_devices.reserve(&uri.to_string(), USER)?;
        let store = store_at(uri)?;
        ObjectDevice::create(&store, &executor(), size, header_size)
            .map_err(|error| advise(uri, &error))?;
        made.add_objects(Arc::clone(&store));
        refuse_unsafe(uri, &store)
    }

    /// The device of an image, which is opened when the image needs it.
    pub(crate) fn image_device(&self, uri: &ObjectUri, user: String) -> ImageDevice {
        let (devices, in_use) = (
            Arc::clone(&self.object_devices),
            Arc::clone(&self.object_devices),
        );
        let (patience, observer) = (Arc::clone(&self.store_patience), self.outage_observer());
        let (uri, name) = (uri.clone(), uri.to_string());
        ImageDevice {
            open: Box::new(move || {
                let open = |_: Option<&ObjectDevice>| {
                    let access = DeviceAccess::Exclusive;
                    let waits = (&patience, Arc::clone(&observer));
                    let opened = ObjectDevice::open(store_at(&uri)?, executor(), access, waits)?;
                    opened.monitor().set_patience(Some(PATIENCE_OF_IMAGES));
                    Ok::<_, Failure>(opened)
                };
                let device = devices.open_reserved(&uri.to_string(), &user, open)?;
                Ok(device as Arc<dyn AtomicDevice>)
            }),
            abandon: Box::new(move || {
                if let Some(device) = in_use.in_use(&name) {
                    device.abandon();
                }
            }),
        }
    }

    /// Checks the guarantees of a store. What lies at the address is not touched.
    ///
    /// # Errors
    /// The address is wrong, or the store does not answer or refuses.
    pub(crate) fn probe_store(&self, text: &str) -> Result<StoreProbeReport> {
        let uri = ObjectUri::parse(text)?;
        let meter = Arc::new(MeteredStore::new(store_at(&uri)?));
        let store: Arc<dyn ObjectStore> = Arc::<MeteredStore>::clone(&meter);
        let report = probe(&store, &executor(), ProbeDepth::Thorough)?;
        let totals = meter.totals();
        let checks = report.checks.iter().map(|check| StoreCheckRow {
            guarantee: check.guarantee.name().into(),
            holds: check.outcome == GuaranteeOutcome::Holds,
            how: match &check.outcome {
                GuaranteeOutcome::Holds => None,
                GuaranteeOutcome::Broken(how) => Some(how.clone()),
            },
            consequence: check.guarantee.consequence().into(),
        });
        Ok(StoreProbeReport {
            store: uri.to_string(),
            safe: report.is_safe(),
            checks: checks.collect(),
            leftovers: report.leftovers.clone(),
            requests: totals.creates
                + totals.replaces
                + totals.gets
                + totals.lists
                + totals.deletes,
            bytes: totals.bytes_sent + totals.bytes_received,
        })
    }

    /// Returns a device that looks like the one that [`Daemon::make_object_device`] would make. Nothing is written.
    ///
    /// # Errors
    /// As [`Daemon::make_object_device`].
    pub(crate) fn rehearse_object_device(
        &self,
        text: &str,
        size: Option<u64>,
    ) -> Result<Arc<dyn BlockDevice>> {
        let uri = ObjectUri::parse(text)?;
        let _slot = self.object_devices.reserve(&uri.to_string(), USER)?;
        let size = size.unwrap_or(SIZE);
        let rehearsed =
            ObjectDevice::rehearse(store_at(&uri)?, executor(), size, store::header_size(size));
        Ok(Arc::new(rehearsed.map_err(|error| advise(&uri, &error))?))
    }

    /// Removes the objects of a device. Objects with other names stay. Returns their number.
    ///
    /// # Errors
    /// Something uses the device; the store does not answer, or refuses.
    pub(crate) fn remove_objects(&self, text: &str) -> Result<u64> {
        let uri = ObjectUri::parse(text)?;
        let _slot = self.object_devices.reserve(&uri.to_string(), USER)?;
        Ok(ObjectDevice::remove(store_at(&uri)?, executor())?)
    }

    /// Returns whether a device of this daemon lies at an address.
    pub(crate) fn has_object_device(&self, path: &Path) -> bool {
        { path.to_str() }.is_some_and(|path| self.object_devices.in_use(path).is_some())
    }

    /// The reason why a store does not answer or refuses, if it does either.
    pub(crate) fn store_trouble(&self, text: &str) -> Option<String> {
        let check = || {
            let store = store_at(&ObjectUri::parse(text)?)?;
            Ok(ObjectDevice::check(&store, &executor())?)
        };
        check().err().map(|failure: Failure| failure.message)
    }

    /// Removes the objects of the devices of a destroyed pool, and tells the caller.
    pub(crate) fn remove_objects_of(&self, paths: &[String], context: &mut CallerContext<'_>) {
        for path in paths.iter().filter(is_on_store) {
            tell_removed(path, self.remove_objects(path), context);
        }
    }

    /// Removes the objects of the image of a destroyed pool, unless another host has imported it since it was opened, and
    /// tells the caller.
    pub(crate) fn remove_image(
        &self,
        path: &str,
        image: Result<Arc<ObjectDevice>>,
        context: &mut CallerContext<'_>,
    ) {
        let removed = image.and_then(|image| {
            let _slot = self.object_devices.reserve(path, USER)?;
            match image.remove_unchanged() {
                Err(Error::Changed { .. }) => Err(Failure::new(
                    FailureKind::Device,
                    "another host may have imported it",
                )),
                removed => Ok(removed?),
            }
        });
        tell_removed(path, removed, context);
    }
}

/// Tells the caller how many objects of a destroyed pool were removed, or that they stay.
fn tell_removed(path: &str, removed: Result<u64>, context: &mut CallerContext<'_>) {
    let notice = match removed {
        Ok(count) => format!("{count} objects were removed from {path}"),
        Err(failure) => format!(
            "objects of the pool stay in {path}: {}; to remove them: strongroom pool labelclear -f {path}",
            failure.message
        ),
    };
    context.channel.notice(notice);
}

/// Returns whether a device lies in an object store.
pub(crate) fn is_on_store(path: &(impl AsRef<std::path::Path> + ?Sized)) -> bool {
    matches!(DeviceName::parse(path), DeviceName::Object(_))
}

/// The refusal of heartbeats for a pool on an object store.
pub(crate) fn no_heartbeats(pool: &str) -> Failure {
    Failure::usage(format!(
        "'{pool}' lies on an object store, which keeps out other hosts without heartbeats; with multihost=on it would send \
         a request each second"
    ))
}

/// Checks the guarantees of a store on which a pool relies.
///
/// # Errors
/// The store breaks one, or it does not answer or refuses.
fn refuse_unsafe(uri: &ObjectUri, store: &Arc<dyn ObjectStore>) -> Result<()> {
    let report = probe(store, &executor(), ProbeDepth::Brief)?;
    for object in &report.leftovers {
        tracing::warn!(store = %uri, object, "an object of the check of a store could not be removed");
    }
    let Some((guarantee, how)) = report.broken().next() else {
        return Ok(());
    };
    Err(Failure::new(
        FailureKind::Device,
        format!(
            "{uri}: this store would lose data: {how}. It does not promise {guarantee}: {}",
            guarantee.consequence()
        ),
    ))
}

fn store_at(uri: &ObjectUri) -> Result<Arc<dyn ObjectStore>> {
    Ok(connect(&address(uri))?)
}

fn address(uri: &ObjectUri) -> StoreAddress {
    match uri {
        ObjectUri::Folder(path) => StoreAddress {
            provider: StoreProvider::Folder,
            bucket: String::new(),
            prefix: path.to_string_lossy().into_owned(),
        },
        ObjectUri::Bucket {
            service,
            bucket,
            prefix,
        } => StoreAddress {
            provider: match service {
                BucketService::S3 => StoreProvider::S3,
                BucketService::Google => StoreProvider::Gcs,
                BucketService::Azure => StoreProvider::Azure,
            },
            bucket: bucket.clone(),
            prefix: prefix.clone(),
        },
    }
}

/// Adds the way out to the failure of a new device where there is one.
fn advise(uri: &ObjectUri, error: &Error) -> Failure {
    let mut failure = Failure::new(error.into(), error.to_string());
    if failure.kind == FailureKind::Exists {
        failure.message += &format!(
            "; -f does not override this. To import the pool that is there: strongroom pool import {uri}; to remove it \
             for good: strongroom pool labelclear -f {uri}"
        );
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_store_name_it_as_the_user_does() {
        for text in [
            "s3://bucket/a/b",
            "gs://bucket",
            "file:///srv/a%20b%25%3F%23%40%C3%A4",
        ] {
            let uri = ObjectUri::parse(text).unwrap();
            assert_eq!(address(&uri).to_string(), uri.to_string());
        }
    }
}
