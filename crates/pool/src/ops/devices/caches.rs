//! Adds and removes cache devices, and takes them offline.

use crate::engine::gate::CommitEngine;
use std::sync::Arc;

use meter::CacheTotals;
use store::{BlockDevice, CacheRange, ErrorCounts, IoMode, NewMember};

use crate::engine::history::{Origin, log};
use crate::error::{Error, Result};
use crate::format::superblock::config::{CACHES_MAX, ConfigCache};
use crate::format::superblock::features::FEATURE_CACHES;
use crate::ops::pool::Pool;
use crate::storage::cache_device::CacheDevice;

/// The state of a cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// The device is in use.
    Online,
    /// The device is not in use: it was taken offline, or could not be opened.
    Away,
    /// The device failed.
    Faulted,
}

/// A cache device of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheInfo {
    /// The guid of the device.
    pub guid: u64,
    /// The path of the device.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// The state of the device.
    pub state: CacheState,
    /// Bytes that it holds.
    pub held: u64,
    /// The number of errors since the device was opened.
    pub errors: ErrorCounts,
    /// The way in which the device is read and written, as of the other devices.
    pub io_mode: Option<IoMode>,
    /// True if the pool does not ask the device now, because it did not answer.
    pub is_slow: bool,
    /// The number of reads that were given up since the device was opened.
    pub given_up: u64,
}

/// The cache devices of a pool: which it has, and which it uses.
#[derive(Clone, Copy)]
pub struct CacheMembership<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

impl Pool {
    /// The cache devices.
    pub fn cache_devices(&self) -> CacheMembership<'_> {
        CacheMembership {
            engine: &self.engine,
        }
    }
}

impl CacheMembership<'_> {
    /// The cache devices.
    pub fn list(&self) -> Vec<CacheInfo> {
        let used = self.engine.disk.caches.devices();
        let state = self.engine.state.visible();
        let info = |cache: &ConfigCache| {
            let device = used.iter().find(|device| device.guid == cache.guid);
            CacheInfo {
                guid: cache.guid,
                path: device.map_or_else(|| cache.path.clone(), |device| device.range().name()),
                size: cache.size,
                state: match device {
                    None => CacheState::Away,
                    Some(device) if device.has_failed() => CacheState::Faulted,
                    Some(_) => CacheState::Online,
                },
                held: device.map_or(0, |device| device.bytes().0),
                errors: device.map_or_else(ErrorCounts::default, |device| device.errors()),
                io_mode: device.and_then(|device| device.range().io_mode()),
                is_slow: device.is_some_and(|device| device.is_slow()),
                given_up: device.map_or(0, |device| device.range().given_up()),
            }
        };
        state.config.caches.iter().map(info).collect()
    }

    /// The contents of all cache devices together, and the hits.
    pub fn totals(&self) -> CacheTotals {
        self.engine.disk.caches.totals()
    }

    /// Says whether [`CacheMembership::add`](crate::CacheMembership::add) would refuse these devices. Nothing is written.
    ///
    /// # Errors
    /// As [`CacheMembership::add`](crate::CacheMembership::add).
    pub fn check(&self, devices: &[NewMember]) -> Result<()> {
        self.refuse_many(devices)?;
        Ok(devices.iter().try_for_each(CacheRange::check)?)
    }

    fn refuse_many(&self, devices: &[NewMember]) -> Result<()> {
        let known = self.engine.state.read().config.caches.len();
        match devices.get(CACHES_MAX.saturating_sub(known)) {
            None => Ok(()),
            Some(new) => {
                let reason =
                    format!("the pool has {CACHES_MAX} cache devices, and can have no more");
                Err(Error::of_device(&new.device.name(), reason))
            }
        }
    }

    /// Adds a cache device. Its former content is lost.
    ///
    /// # Errors
    /// [`Error::Device`] if the pool has the maximum of cache devices;
    /// [`Error::Store`] if it cannot be labelled; as [`Pool::commit`].
    pub fn add(&self, new: &NewMember, origin: &Origin) -> Result<()> {
        let engine = self.engine;
        engine.check_writable()?;
        self.refuse_many(std::slice::from_ref(new))?;
        let range = CacheRange::create(new, self.engine.disk.store.pool_guid())?;
        let listed = engine.commit_with(|commit, state| {
            state.config.caches.push(ConfigCache {
                guid: new.guid,
                size: new.device.size(),
                path: new.device.name(),
            });
            state.config_dirty = true;
            let features = state.root.features_optional.get() | FEATURE_CACHES;
            state.root.features_optional = features.into();
            log(commit, state, origin, None);
            Ok(())
        });
        if listed.is_err() {
            let _ = range.erase();
            return listed;
        }
        self.start(range, new.guid);
        Ok(())
    }

    /// Starts to use a cache device of the pool, after an import or when it was away. It is empty.
    ///
    /// # Errors
    /// [`store::Error::NotThatCache`] if the device is another one by now.
    pub fn bring_online(&self, guid: u64, device: &Arc<dyn BlockDevice>) -> Result<()> {
        self.engine.check_writable()?;
        let is_listed = self.list().iter().any(|cache| cache.guid == guid);
        if !is_listed {
            return Err(Error::of_device(
                &device.name(),
                "it is not a cache device of the pool",
            ));
        }
        self.start(
            CacheRange::open(device, self.engine.disk.store.pool_guid(), guid)?,
            guid,
        );
        Ok(())
    }

    fn start(&self, range: CacheRange, guid: u64) {
        let device = Arc::new(CacheDevice::start(
            range,
            guid,
            self.engine.env.has_threads(),
        ));
        self.engine.disk.caches.change(|devices| {
            devices.retain(|device| device.guid != guid);
            devices.push(device);
        });
    }

    /// Closes a cache device until it is used again, or until the next import.
    pub fn take_offline(&self, guid: u64) {
        let caches = &self.engine.disk.caches;
        caches.change(|devices| devices.retain(|device| device.guid != guid));
    }

    /// Takes a cache device out of the pool.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn remove(&self, guid: u64, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            state.config.caches.retain(|cache| cache.guid != guid);
            state.config_dirty = true;
            log(commit, state, origin, None);
            Ok(())
        })?;
        let device = self.range(guid);
        self.take_offline(guid);
        if let Some(Err(error)) = device.map(|range| range.erase()) {
            // It does not belong to the pool any more, and has nothing that can be read without a key.
            tracing::warn!(%error, "a cache device that was taken out of the pool could not be erased");
        }
        Ok(())
    }

    fn range(&self, guid: u64) -> Option<CacheRange> {
        let devices = self.engine.disk.caches.devices();
        let device = devices.iter().find(|device| device.guid == guid)?;
        Some(device.range().clone())
    }

    /// Erases the cache devices of a destroyed pool, if possible.
    pub(crate) fn erase(&self) {
        for cache in self.list() {
            let range = self.range(cache.guid);
            self.take_offline(cache.guid);
            let _ = range.map(|range| range.erase());
        }
    }

    /// Waits until all waiting writes to cache devices are done. Without threads
    /// ([`Env::has_threads`](crate::Env::has_threads)) it writes that itself. For tests and measurements.
    pub fn drain(&self) {
        let devices = self.engine.disk.caches.devices();
        devices.iter().for_each(|device| device.drain());
    }
}
