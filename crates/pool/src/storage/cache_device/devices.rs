//! The cache devices that a pool uses, and the records that may go there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use meter::CacheTotals;
use parking_lot::RwLock;

use super::device::CacheDevice;

/// The sealed records of a dataset that the second-level cache may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SecondaryCache {
    /// The records of metadata and of contents.
    #[default]
    All = 0,
    /// The records of metadata.
    Metadata = 1,
    /// None.
    None = 2,
}

impl SecondaryCache {
    pub(crate) fn from_number(number: u8) -> SecondaryCache {
        match number {
            0 => SecondaryCache::All,
            1 => SecondaryCache::Metadata,
            _ => SecondaryCache::None,
        }
    }
}

/// The cache devices that a pool uses.
#[derive(Default)]
pub(crate) struct CacheDevices {
    devices: RwLock<Arc<Vec<Arc<CacheDevice>>>>,
    is_used: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CacheDevices {
    pub(crate) fn devices(&self) -> Arc<Vec<Arc<CacheDevice>>> {
        Arc::clone(&self.devices.read())
    }

    /// Changes which devices are used.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Arc<CacheDevice>>)) {
        let mut devices = self.devices.write();
        let mut changed = devices.to_vec();
        change(&mut changed);
        self.is_used.store(!changed.is_empty(), Ordering::Release);
        *devices = Arc::new(changed);
    }

    /// Fills `buf` with the bytes of a checksum, if a device has them.
    pub(crate) fn find(&self, sum: &[u8; 16], buf: &mut [u8]) -> bool {
        if !self.is_used.load(Ordering::Acquire) {
            return false;
        }
        let found = self.devices().iter().any(|device| device.find(sum, buf));
        let counter = if found { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Queues bytes that were read. One of the devices gets them.
    pub(crate) fn offer(&self, sum: &[u8; 16], bytes: &[u8]) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let devices = self.devices();
        let working: Vec<_> = devices.iter().filter(|d| !d.has_failed()).collect();
        if let Some(nth) = usize::from(sum[15]).checked_rem(working.len()) {
            working[nth].offer(sum, bytes);
        }
    }

    /// The contents of all devices together, and the hits.
    pub(crate) fn totals(&self) -> CacheTotals {
        let mut totals = CacheTotals {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            ..CacheTotals::default()
        };
        for device in self.devices().iter() {
            let (held, capacity) = device.bytes();
            totals.bytes += held;
            totals.capacity += capacity;
        }
        totals
    }
}
