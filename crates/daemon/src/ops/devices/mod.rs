//! Devices of pools, and devices that commands borrow from the daemon.

pub(crate) mod caches;
pub(crate) mod commands;
pub(crate) mod followers;
pub(crate) mod labels;
pub(crate) mod layers;
pub(crate) mod meters;
pub(crate) mod new_pool;
pub(crate) mod pool_devices;
pub(crate) mod remote_device;
pub(crate) mod remote_exports;
pub(crate) mod stores;
