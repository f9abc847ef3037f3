//! Cache devices of a pool: opens them after an import, and runs the commands on them.

use std::path::Path;

use pool::{CacheInfo, CacheState, Pool};
use protocol::api::{DeviceChange, DeviceRow};

use crate::failure::{Failure, Result};
use crate::ops::devices::commands::is_named;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

impl ActivePool {
    /// Opens the cache devices at the paths where they were last. The pool works without them.
    pub(crate) fn open_caches(&self, daemon: &Daemon, context: &mut CallerContext<'_>) {
        if self.pool.is_read_only() {
            return;
        }
        for cache in self.pool.cache_devices().list() {
            if let Err(failure) = self.online_cache(daemon, &cache) {
                let notice = format!("a cache device is not used: {}", failure.message);
                context.channel.notice(notice);
            }
        }
    }

    fn online_cache(&self, daemon: &Daemon, cache: &CacheInfo) -> Result<()> {
        // Closed first: otherwise the pool's own lock would keep it from being opened.
        self.pool.cache_devices().take_offline(cache.guid);
        let opened = self.open_device(daemon, Path::new(&cache.path))?;
        Ok(self
            .pool
            .cache_devices()
            .bring_online(cache.guid, &opened)?)
    }

    /// Carries out a command on a cache device; `None` if the command names another device.
    pub(crate) fn change_cache(
        &self,
        daemon: &Daemon,
        change: &DeviceChange,
        context: &mut CallerContext<'_>,
    ) -> Option<Result<()>> {
        let (DeviceChange::Attach { device, .. }
        | DeviceChange::Replace { device, .. }
        | DeviceChange::Detach { device, .. }
        | DeviceChange::Remove { device, .. }
        | DeviceChange::Offline { device, .. }
        | DeviceChange::Online { device, .. }
        | DeviceChange::Clear {
            device: Some(device),
        }) = change
        else {
            return None;
        };
        let cache = find(&self.pool, device)?;
        Some(match change {
            DeviceChange::Remove { .. } => self.remove_cache(daemon, &cache, context),
            DeviceChange::Offline { .. } => {
                self.pool.cache_devices().take_offline(cache.guid);
                Ok(())
            }
            DeviceChange::Online { expand: true, .. } => Err(Failure::usage(format!(
                "{} is a cache device; remove it and add it again to use all of it",
                cache.path
            ))),
            DeviceChange::Online { .. } if cache.state == CacheState::Online => Ok(()),
            DeviceChange::Online { .. } | DeviceChange::Clear { .. } => {
                self.online_cache(daemon, &cache)
            }
            _ => Err(Failure::usage(format!(
                "{} is a cache device, which holds copies only; remove it, and add another",
                cache.path
            ))),
        })
    }

    /// Removes a cache device. If it can be opened, its label is wiped, so that it can be used for something else.
    fn remove_cache(
        &self,
        daemon: &Daemon,
        cache: &CacheInfo,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        if cache.state != CacheState::Online {
            let _ = self.online_cache(daemon, cache);
        }
        Ok(self
            .pool
            .cache_devices()
            .remove(cache.guid, &context.origin())?)
    }

    /// Opens the failed cache devices again.
    pub(crate) fn clear_caches(&self, daemon: &Daemon) -> Vec<Failure> {
        let mut caches = self.pool.cache_devices().list();
        caches.retain(|cache| cache.state == CacheState::Faulted);
        let again = caches.iter().map(|cache| self.online_cache(daemon, cache));
        again.filter_map(Result::err).collect()
    }
}

fn find(pool: &Pool, name: &str) -> Option<CacheInfo> {
    let mut caches = pool.cache_devices().list().into_iter();
    caches.find(|cache| is_named(name, &cache.path, cache.guid))
}

/// The cache devices for a report.
pub(crate) fn rows(pool: &Pool) -> Vec<DeviceRow> {
    let row = |cache: CacheInfo| DeviceRow {
        path: cache.path,
        guid: cache.guid,
        size: cache.size,
        unused: 0,
        state: match cache.state {
            CacheState::Online if cache.is_slow => "SLOW",
            CacheState::Online => "ONLINE",
            CacheState::Away => "OFFLINE",
            CacheState::Faulted => "FAULTED",
        }
        .into(),
        group: None,
        is_log: false,
        is_cache: true,
        parity: 0,
        column: 0,
        replaces: None,
        was_spare: false,
        read: cache.errors.read,
        write: cache.errors.write,
        checksum: cache.errors.checksum,
        io: cache.io_mode.map(|mode| mode.as_str().into()),
    };
    pool.cache_devices().list().into_iter().map(row).collect()
}
