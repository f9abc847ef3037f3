//! The commands for whole pools.

use std::path::PathBuf;

use super::history::{HistoryText, HistoryValue, interval_text, size_text};
use crate::api::arguments::{
    CheckpointUse, DeviceChange, NewPoolDevices, Props, SpaceWork, each_once,
};
use crate::api::reports::AuditAnchor;

requests! {
    /// Make a pool with a root dataset.
    PoolCreate: Changes, "pool create" [
        "-f" force, "-n" dry_run, "-N" no_mount, "-s" size.map(size_text), "-t" temporary_name, "-R" altroot,
        "-m" mountpoint(), "-O" other_props(), pool, devices.as_ref(),
    ] {
        /// The name of the new pool.
        pool: String,
        /// Files and disks, absolute.
        devices: Box<NewPoolDevices>,
        /// Make the files first, of this many bytes.
        size: Option<u64>,
        /// Overwrite what the devices hold.
        #[serde(default)]
        force: bool,
        /// Properties of the root dataset.
        props: Props,
        /// Leave the root dataset unmounted.
        #[serde(default)]
        no_mount: bool,
        /// Only say whether it could be made.
        #[serde(default)]
        dry_run: bool,
        /// The directory before all mountpoints.
        #[serde(default)]
        altroot: Option<PathBuf>,
        /// The name of the pool until the export, if that is another one.
        #[serde(default)]
        temporary_name: Option<String>,
    }

    /// Say which pools could be imported.
    PoolImportable: Reads, "pool import" ["-d" search] {
        /// Files, disks, or directories of such; the usual places if empty.
        search: Vec<PathBuf>,
    }

    /// Import a pool, or all.
    #[derive(Default)]
    PoolImport: Changes, "pool import" [
        "--accept" accept, "-a" pool.is_none(), "-f" force, "-l" load_keys, "-m" without_logs, "-N" no_mount,
        "-t" temporary_name, "--rewind-to-checkpoint" checkpoint.eq(&CheckpointUse::Rewind),
        "--discard-checkpoint" checkpoint.eq(&CheckpointUse::Discard), "-o readonly=on" read_only,
        "-o refresh=" refresh.map(interval_text), "-o reservations=off" without_reservations, "-R" altroot, "-d" search, pool, new_name,
    ] {
        /// The directories and devices to look at.
        search: Vec<PathBuf>,
        /// Name or guid; all pools if absent.
        pool: Option<String>,
        /// Another name for it.
        new_name: Option<String>,
        /// The other name is for this import only, and is not stored.
        #[serde(default)]
        temporary_name: bool,
        /// The next start of the daemon does not import it.
        #[serde(default)]
        temporary: bool,
        /// Change nothing on the devices.
        #[serde(default)]
        read_only: bool,
        /// The seconds between refreshes of a pool that is read from an object store; 0 for none.
        #[serde(default)]
        refresh: Option<u64>,
        /// Even if another host has it.
        #[serde(default)]
        force: bool,
        /// Leave its datasets unmounted.
        #[serde(default)]
        no_mount: bool,
        /// Load the keys that need no typing.
        #[serde(default)]
        load_keys: bool,
        /// Give up what waits in logs on devices that are not there.
        #[serde(default)]
        without_logs: bool,
        /// Reserve no devices, and switch the property `reservations` off.
        #[serde(default)]
        without_reservations: bool,
        /// Read keys from where the pool says, now and later.
        #[serde(default)]
        accept: bool,
        /// The directory before the mountpoints of its datasets; absolute.
        #[serde(default)]
        altroot: Option<PathBuf>,
        /// The use of the pool's checkpoint.
        #[serde(default)]
        checkpoint: CheckpointUse,
    }

    /// Let go of a pool.
    PoolExport: Changes, "pool export" ["-f" force, pool] {
        /// The name of the pool.
        pool: String,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
    }

    /// Read the newest state of a pool that was imported read-only from an object store.
    PoolRefresh: Changes, "pool refresh" [pool] {
        /// The name of the pool.
        pool: String,
    }

    /// Destroy a pool.
    PoolDestroy: Changes, "pool destroy" ["-f" force, pool] {
        /// The name of the pool.
        pool: String,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
    }

    /// The state of pools; of all if none is named.
    #[derive(Default)]
    PoolStatus: Reads, "pool status" [pools] {
        /// Their names.
        #[serde(deserialize_with = "each_once")]
        pools: Vec<String>,
        /// True if to name damaged files, which reads metadata of their datasets.
        #[serde(default)]
        names_files: bool,
    }

    /// Report the operations of devices; of all pools if none is named.
    PoolIo: Reads, "pool iostat" [pools] {
        /// Their names.
        #[serde(deserialize_with = "each_once")]
        pools: Vec<String>,
    }

    /// Change which devices a pool is made of.
    PoolDevices: Changes, "pool" [whole()] {
        /// The pool.
        pool: String,
        /// The change of the devices.
        change: DeviceChange,
    }

    /// Make a member of each mirror of a pool a pool of its own.
    PoolSplit: Changes, "pool split" ["-n" dry_run, "-l" load_keys, "-R" altroot, pool, new, devices] {
        /// The pool.
        pool: String,
        /// The name of the new one.
        new: String,
        /// The members, of those mirrors where it is not to be the last one.
        devices: Vec<String>,
        /// Only say which these are.
        #[serde(default)]
        dry_run: bool,
        /// Import the new pool, with this directory before all mountpoints.
        altroot: Option<PathBuf>,
        /// Load its keys that need no typing.
        #[serde(default)]
        load_keys: bool,
    }

    /// Give a pool another guid.
    PoolReguid: Changes, "pool reguid" ["-l" load_keys, pool] {
        /// The pool.
        pool: String,
        /// Load its keys again that need no typing.
        #[serde(default)]
        load_keys: bool,
    }

    /// Make everything durable that was written to pools; to all if none is named.
    PoolSync: Changes, "pool sync" [pools] {
        /// Their names.
        #[serde(deserialize_with = "each_once")]
        pools: Vec<String>,
    }

    /// Begin, pause or end work on the free space of a pool.
    PoolSweep: Changes, "pool" [verb(), "-c" stop, "-s" pause, pool, device] {
        /// The pool.
        pool: String,
        /// The kind of work on free space.
        what: SpaceWork,
        /// The device, if it is only one.
        device: Option<String>,
        /// End it instead.
        #[serde(default)]
        stop: bool,
        /// Pause it instead.
        #[serde(default)]
        pause: bool,
    }

    /// Keep the state of a pool as it is now.
    PoolCheckpoint: Changes, "pool checkpoint" ["-d" discard, pool] {
        /// The pool.
        pool: String,
        /// Discard the one that is kept instead.
        #[serde(default)]
        discard: bool,
    }

    /// Begin, pause or stop reading everything.
    PoolScrub: Changes, "pool scrub" ["-n" dry_run, "-p" pause, "-s" stop, pool] {
        /// The pool.
        pool: String,
        /// Stop it instead.
        #[serde(default)]
        stop: bool,
        /// Pause it instead.
        #[serde(default)]
        pause: bool,
        /// Only say how much there is to read.
        #[serde(default)]
        dry_run: bool,
    }

    /// List the features that pools have; of all pools if none is named.
    PoolFeatures: Reads, "pool upgrade" [pools] {
        /// Their names.
        #[serde(deserialize_with = "each_once")]
        pools: Vec<String>,
    }

    /// Check the guarantees of an object store.
    ObjectsProbe: Changes, "objects probe" [address] {
        /// The address of the store.
        address: String,
    }

    /// List the commands in the history of a pool.
    PoolHistory: Reads, "pool history" ["-i" internal, pool] {
        /// The pool.
        pool: String,
        /// Also what the pool did by itself.
        #[serde(default)]
        internal: bool,
    }

    /// List the records of who did what to a pool.
    Audit: Reads, "audit list" [pool] {
        /// The pool.
        pool: String,
        /// Only records with this number, or a greater one.
        #[serde(default)]
        from: u64,
    }

    /// Check the records of who did what to a pool.
    AuditVerify: Reads, "audit verify" [pool, anchor.as_ref().map(AuditAnchor::to_string)] {
        /// The pool.
        pool: String,
        /// A record that has to be there.
        anchor: Option<AuditAnchor>,
    }

    /// List the latest events of pools.
    PoolEvents: Changes(clear), "pool events" ["-c" clear] {
        /// Only those with greater numbers.
        after: u64,
        /// Forget all, and tell none.
        #[serde(default)]
        clear: bool,
    }

    /// Make a device that belonged to a pool one that belongs to none.
    PoolLabelClear: Changes, "pool labelclear" ["-f" force, device] {
        /// The device.
        device: PathBuf,
        /// Also of a pool that was exported, or that another host may use.
        #[serde(default)]
        force: bool,
    }
}

impl PoolCreate {
    fn mountpoint(&self) -> Option<&str> {
        let mut props = self.props.iter();
        let found = props.find(|(name, _)| name == "mountpoint");
        found.map(|(_, dir)| dir.as_str())
    }

    fn other_props(&self) -> Props {
        let props = self.props.iter();
        props
            .filter(|(name, _)| name != "mountpoint")
            .cloned()
            .collect()
    }
}

impl PoolSweep {
    fn verb(&self) -> &'static str {
        match self.what {
            SpaceWork::Trim => "trim",
            SpaceWork::Initialize => "initialize",
        }
    }
}

impl PoolDevices {
    fn whole(&self) -> &PoolDevices {
        self
    }
}

impl HistoryValue for PoolDevices {
    fn write(&self, _: &str, line: &mut HistoryText) {
        let pool = &self.pool;
        match &self.change {
            DeviceChange::Add {
                devices,
                force,
                dry_run,
            } => {
                line.add("", "add").add("-f", *force).add("-n", *dry_run);
                line.add("", pool).add("", &**devices)
            }
            DeviceChange::Attach {
                device,
                new,
                force,
                follow,
            } => {
                line.add("", "attach").add("-f", *force);
                let follow = follow.map(|seconds| format!("follow={seconds}s"));
                line.add("-o", &follow);
                line.add("", pool).add("", device).add("", new)
            }
            DeviceChange::Detach { device, force } => {
                line.add("", "detach").add("-f", *force);
                line.add("", pool).add("", device)
            }
            DeviceChange::Replace { device, new, force } => {
                line.add("", "replace").add("-f", *force);
                line.add("", pool).add("", device).add("", new)
            }
            // Whether the caller waits for it is not what was done.
            DeviceChange::Remove { device, wait: _ } => {
                line.add("", "remove").add("", pool).add("", device)
            }
            DeviceChange::StopRemove => line.add("", "remove").add("-s", pool),
            DeviceChange::Offline { device, temporary } => {
                line.add("", "offline").add("-t", *temporary);
                line.add("", pool).add("", device)
            }
            DeviceChange::Online { device, expand } => {
                line.add("", "online").add("-e", *expand);
                line.add("", pool).add("", device)
            }
            DeviceChange::Clear { device } => line.add("", "clear").add("", pool).add("", device),
            DeviceChange::Reopen => line.add("", "reopen").add("", pool),
        };
    }
}
