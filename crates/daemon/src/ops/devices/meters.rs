//! The devices of imported pools, with meters around them.
//!
//! Stores use a `BlockDevice` and know nothing of meters. So meters are found by the path of the device, which is also
//! its name in the pool.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Instant;

use block::{BlockDevice, DeviceAccess, DeviceMeter, FileDevice, MeteredDevice};
use meter::OperationMeter;
use parking_lot::Mutex;
use protocol::api::{CacheIo, DeviceIo, Io, PoolIoReport};
use protocol::device_name::DeviceName;

use crate::failure::Result;
use crate::ops::devices::stores::store_outages::unless_stalled;
use crate::ops::devices::stores::store_prices::store_io;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

pub(crate) struct OpenDevice {
    pub(crate) meter: Arc<DeviceMeter>,
    /// The time since which the meter counts.
    pub(crate) since: Instant,
}

/// All metered devices of this process, by name.
static OPEN: Mutex<BTreeMap<String, (Weak<DeviceMeter>, Instant)>> = Mutex::new(BTreeMap::new());

impl Daemon {
    /// Opens a device of an imported pool. `user` is the pool, or the command that looks for pools.
    pub(crate) fn open_device(
        &self,
        path: &Path,
        access: DeviceAccess,
        user: &str,
    ) -> Result<Arc<dyn BlockDevice>> {
        Ok(match DeviceName::parse(path).supported()? {
            DeviceName::Path(path) => metered_file(FileDevice::open(path, access)?),
            name => metered(self.open(name, access, user)?),
        })
    }
}

/// A file or a disk of a pool. A disk is used past the cache of the system. What lies in a file is faster with the reads
/// ahead and the late writes of the kernel (`docs/perf/NOTES.md`).
pub(crate) fn metered_file(device: FileDevice) -> Arc<dyn BlockDevice> {
    metered(match device.lies_in_a_file() {
        true => device,
        false => device.past_cache(),
    })
}

/// The name in messages for a pool as the user of its devices.
pub(crate) fn pool_user(name: &str) -> String {
    format!("the pool '{name}'")
}

impl ActivePool {
    pub(crate) fn open_device(&self, daemon: &Daemon, path: &Path) -> Result<Arc<dyn BlockDevice>> {
        let name = self.pool.name();
        daemon.refuse_circle(&name, path)?;
        daemon.open_device(path, DeviceAccess::Exclusive, &pool_user(&name))
    }
}

/// Counts the operations of a device. If the device is open already, it keeps its meter: a command may look for pools
/// on a device that a pool uses.
pub(crate) fn metered(device: impl BlockDevice + 'static) -> Arc<dyn BlockDevice> {
    let mut open = OPEN.lock();
    open.retain(|_, (meter, _)| meter.strong_count() > 0);
    let known = open.get(&device.name());
    let meter = known
        .and_then(|(meter, _)| meter.upgrade())
        .unwrap_or_else(|| {
            let new = Arc::new(DeviceMeter::default());
            open.insert(device.name(), (Arc::downgrade(&new), Instant::now()));
            new
        });
    drop(open);
    Arc::new(MeteredDevice::new(device, meter))
}

/// The meter of the device with this name, while it is open.
pub(crate) fn meter(name: &str) -> Option<OpenDevice> {
    let open = OPEN.lock();
    let (meter, since) = open.get(name)?;
    Some(OpenDevice {
        meter: meter.upgrade()?,
        since: *since,
    })
}

impl Daemon {
    /// The counters of the devices of these pools; of all pools if `names` is empty.
    pub(crate) fn pool_io(&self, names: &[String]) -> Result<Vec<PoolIoReport>> {
        let pools = self.pools_named(names)?;
        Ok(pools.iter().map(pool_io).collect())
    }
}

fn pool_io(active: &Arc<ActivePool>) -> PoolIoReport {
    let pool = &active.pool;
    let space = unless_stalled(active, |active| active.pool.space());
    // While a store does not answer, the space is that of the last report.
    let last = || {
        active
            .last_report
            .get()
            .map(|it| (it.allocated, it.size - it.allocated))
    };
    let now = space.map(|space| (space.total.saturating_sub(space.free), space.free));
    let (allocated, free) = now.or_else(last).unwrap_or_default();
    let devices = pool.devices().into_iter();
    let caches = pool.cache_devices().list().into_iter().filter_map(|cache| {
        Some(CacheIo {
            device: device_io(meter(&cache.path)?, cache.path),
            allocated: cache.held,
            free: cache.size.saturating_sub(cache.held),
        })
    });
    PoolIoReport {
        caches: caches.collect(),
        name: pool.name(),
        allocated,
        free,
        devices: devices
            .filter_map(|device| Some(device_io(meter(&device.path)?, device.path)))
            .collect(),
    }
}

fn device_io(open: OpenDevice, path: String) -> DeviceIo {
    let io = |operation: &OperationMeter| {
        let totals = operation.totals();
        Io {
            operations: totals.times.count(),
            bytes: totals.bytes,
            errors: totals.errors,
            nanos: totals.times.nanos,
        }
    };
    DeviceIo {
        elapsed: u64::try_from(open.since.elapsed().as_nanos()).unwrap_or(u64::MAX),
        read: io(&open.meter.read),
        write: io(&open.meter.write),
        flush: io(&open.meter.flush),
        discard: io(&open.meter.discard),
        store: store_io(&path),
        path,
    }
}

#[cfg(test)]
mod tests {
    use block::FileDevice;

    use super::*;

    #[test]
    fn meters_are_there_as_long_as_their_devices() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let device = metered(FileDevice::create(&path, 1 << 20).unwrap());
        let name = path.display().to_string();
        device.read_at(0, &mut [0; 512]).unwrap();
        let open = meter(&name).unwrap();
        assert_eq!(open.meter.read.totals().bytes, 512);
        drop((device, open));
        assert!(meter(&name).is_none());
    }

    #[test]
    fn a_device_that_is_looked_at_keeps_its_meter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let used = metered(FileDevice::create(&path, 1 << 20).unwrap());
        let name = path.display().to_string();
        let looks = metered(FileDevice::open(&path, DeviceAccess::ReadOnly).unwrap());
        used.read_at(0, &mut [0; 512]).unwrap();
        drop(looks);
        assert_eq!(meter(&name).unwrap().meter.read.totals().bytes, 512);
    }
}
