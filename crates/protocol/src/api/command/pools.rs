//! The commands for whole pools.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::arguments::{DeviceChange, Props, each_once};

/// Make a pool with a root dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolCreate {
    /// The name of the new pool.
    pub pool: String,
    /// Files and disks, absolute.
    pub devices: Box<crate::api::NewPoolDevices>,
    /// Make the files first, of this many bytes.
    pub size: Option<u64>,
    /// Overwrite what the devices hold.
    #[serde(default)]
    pub force: bool,
    /// Properties of the root dataset.
    pub props: Props,
    /// Leave the root dataset unmounted.
    #[serde(default)]
    pub no_mount: bool,
    /// Only say whether it could be made.
    #[serde(default)]
    pub dry_run: bool,
    /// The directory before all mountpoints.
    #[serde(default)]
    pub altroot: Option<PathBuf>,
    /// The name of the pool until the export, if that is another one.
    #[serde(default)]
    pub temporary_name: Option<String>,
}

/// Say which pools could be imported.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolImportable {
    /// Files, disks, or directories of such; the usual places if empty.
    pub search: Vec<PathBuf>,
}

/// Import a pool, or all.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolImport {
    /// The directories and devices to look at.
    pub search: Vec<PathBuf>,
    /// Name or guid; all pools if absent.
    pub pool: Option<String>,
    /// Another name for it.
    pub new_name: Option<String>,
    /// The other name is for this import only, and is not stored.
    #[serde(default)]
    pub temporary_name: bool,
    /// The next start of the daemon does not import it.
    #[serde(default)]
    pub temporary: bool,
    /// Change nothing on the devices.
    #[serde(default)]
    pub read_only: bool,
    /// Even if another host has it.
    #[serde(default)]
    pub force: bool,
    /// Leave its datasets unmounted.
    #[serde(default)]
    pub no_mount: bool,
    /// Load the keys that need no typing.
    #[serde(default)]
    pub load_keys: bool,
    /// Give up what waits in logs on devices that are not there.
    #[serde(default)]
    pub without_logs: bool,
    /// Reserve no devices, and switch the property `reservations` off.
    #[serde(default)]
    pub without_reservations: bool,
    /// Read keys from where the pool says, now and later.
    #[serde(default)]
    pub accept: bool,
    /// The directory before the mountpoints of its datasets; absolute.
    #[serde(default)]
    pub altroot: Option<PathBuf>,
    /// The use of the pool's checkpoint.
    #[serde(default)]
    pub checkpoint: crate::api::CheckpointUse,
}

/// Let go of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolExport {
    /// The name of the pool.
    pub pool: String,
    /// Unmount what is in use.
    #[serde(default)]
    pub force: bool,
}

/// Destroy a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolDestroy {
    /// The name of the pool.
    pub pool: String,
    /// Unmount what is in use.
    #[serde(default)]
    pub force: bool,
}

/// The state of pools; of all if none is named.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolStatus {
    /// Their names.
    #[serde(deserialize_with = "each_once")]
    pub pools: Vec<String>,
    /// True if to name damaged files, which reads metadata of their datasets.
    #[serde(default)]
    pub names_files: bool,
}

/// Report the operations of devices; of all pools if none is named.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolIo {
    /// Their names.
    #[serde(deserialize_with = "each_once")]
    pub pools: Vec<String>,
}

/// Change which devices a pool is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolDevices {
    /// The pool.
    pub pool: String,
    /// The change of the devices.
    pub change: DeviceChange,
}

/// Make a member of each mirror of a pool a pool of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSplit {
    /// The pool.
    pub pool: String,
    /// The name of the new one.
    pub new: String,
    /// The members, of those mirrors where it is not to be the last one.
    pub devices: Vec<String>,
    /// Only say which these are.
    #[serde(default)]
    pub dry_run: bool,
    /// Import the new pool, with this directory before all mountpoints.
    pub altroot: Option<PathBuf>,
    /// Load its keys that need no typing.
    #[serde(default)]
    pub load_keys: bool,
}

/// Give a pool another guid.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolReguid {
    /// The pool.
    pub pool: String,
    /// Load its keys again that need no typing.
    #[serde(default)]
    pub load_keys: bool,
}

/// Make everything durable that was written to pools; to all if none is named.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSync {
    /// Their names.
    #[serde(deserialize_with = "each_once")]
    pub pools: Vec<String>,
}

/// Begin, pause or end work on the free space of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSweep {
    /// The pool.
    pub pool: String,
    /// The kind of work on free space.
    pub what: crate::api::SpaceWork,
    /// The device, if it is only one.
    pub device: Option<String>,
    /// End it instead.
    #[serde(default)]
    pub stop: bool,
    /// Pause it instead.
    #[serde(default)]
    pub pause: bool,
}

/// Keep the state of a pool as it is now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolCheckpoint {
    /// The pool.
    pub pool: String,
    /// Discard the one that is kept instead.
    #[serde(default)]
    pub discard: bool,
}

/// Begin, pause or stop reading everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolScrub {
    /// The pool.
    pub pool: String,
    /// Stop it instead.
    #[serde(default)]
    pub stop: bool,
    /// Pause it instead.
    #[serde(default)]
    pub pause: bool,
}

/// List the features that pools have; of all pools if none is named.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolFeatures {
    /// Their names.
    #[serde(deserialize_with = "each_once")]
    pub pools: Vec<String>,
}

/// List the commands in the history of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolHistory {
    /// The pool.
    pub pool: String,
    /// Also what the pool did by itself.
    #[serde(default)]
    pub internal: bool,
}

/// List the latest events of pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolEvents {
    /// Only those with greater numbers.
    pub after: u64,
    /// Forget all, and tell none.
    #[serde(default)]
    pub clear: bool,
}

/// Make a device that belonged to a pool one that belongs to none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLabelClear {
    /// The device.
    pub device: PathBuf,
    /// Also of a pool that was exported, or that another host may use.
    #[serde(default)]
    pub force: bool,
}
