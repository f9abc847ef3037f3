//! Devices that have one user at a time: volumes, mappings, exports of other servers.

pub(crate) mod device_name;
pub(crate) mod leases;
pub(crate) mod mapping_table;
pub(crate) mod reencryption_guard;
pub(crate) mod remote_devices;
pub(crate) mod store_patience;
