//! What the daemon does with pools, datasets, keys and devices: a file for each kind of request.

pub(crate) mod anchor;
pub(crate) mod caches;
pub(crate) mod clones;
pub(crate) mod dataset_spec;
pub(crate) mod datasets;
pub(crate) mod delegation;
pub(crate) mod devices;
pub(crate) mod diff;
pub(crate) mod exports;
pub(crate) mod health;
pub(crate) mod import_scan;
pub(crate) mod inspect;
pub(crate) mod keys;
pub(crate) mod list;
pub(crate) mod mappings;
pub(crate) mod metered_devices;
pub(crate) mod mounts;
pub(crate) mod pools;
pub(crate) mod receive_policy;
pub(crate) mod remote_device;
pub(crate) mod restore;
pub(crate) mod shred;
pub(crate) mod transfer;
pub(crate) mod userspace;
pub(crate) mod volumes;
pub(crate) mod zones;
