//! What the daemon has: pools with their keys, volumes and mounts, exports, zones; and the caller of a command.

pub(crate) mod acceptances;
pub(crate) mod accepted;
pub(crate) mod account_property;
pub(crate) mod active_pool;
pub(crate) mod channel;
pub(crate) mod connections;
pub(crate) mod context;
pub(crate) mod daemon;
pub(crate) mod device_name;
pub(crate) mod exports;
pub(crate) mod front_end;
pub(crate) mod guests;
pub(crate) mod keyring;
pub(crate) mod keyuses;
pub(crate) mod leases;
pub(crate) mod mapping_table;
pub(crate) mod memory;
pub(crate) mod metered_files;
pub(crate) mod mountpoints;
pub(crate) mod pool_worker;
pub(crate) mod properties;
pub(crate) mod remote_exports;
pub(crate) mod snapshot_schedule;
pub(crate) mod volume_state;
pub(crate) mod zones;
