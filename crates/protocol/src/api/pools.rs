//! What is returned about pools and their devices.

use serde::{Deserialize, Serialize};

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// `ONLINE`, `DEGRADED`, `SUSPENDED`, or `STALLED` while a device does not answer; `UNAVAIL` if it was in use here
    /// and is not imported now.
    pub health: String,
    /// The problem, if there is one.
    pub trouble: Option<String>,
    /// What to do about it.
    pub action: Option<String>,
    /// Bytes for records.
    pub size: u64,
    /// Of these, taken.
    pub allocated: u64,
    /// Of these, free for writers.
    pub free: u64,
    /// How full the pool is, if that needs attention and `trouble` says something worse.
    #[serde(default)]
    pub space_low: Option<String>,
    /// Bytes for records that there would be more if each device were used whole.
    #[serde(default)]
    pub expandable: u64,
    /// How many times as much shared records would take if each pointer had its own.
    pub dedupratio: f64,
    /// Whether something destroyed still has to be given back.
    pub freeing: bool,
    /// Whether it was imported read-only.
    pub read_only: bool,
    /// The last transaction group that is durable.
    pub txg: u64,
    /// Its devices.
    pub devices: Vec<DeviceRow>,
    /// The scrub.
    pub scrub: ScrubRow,
    /// What to do about a scrub that is too long ago.
    #[serde(default)]
    pub scrub_late: Option<String>,
    /// What stands before the mountpoints.
    #[serde(default)]
    pub altroot: Option<String>,
    /// The resilver.
    pub resilver: ScrubRow,
    /// The removal of a group that held data that is under way, or the last one.
    #[serde(default)]
    pub removal: Option<RemovalRow>,
    /// The trim that is under way, or the last one since the import.
    #[serde(default)]
    pub trim: Option<SweepRow>,
    /// The initialization that is under way, or the last one since the import.
    #[serde(default)]
    pub initialize: Option<SweepRow>,
    /// The checkpoint.
    #[serde(default)]
    pub checkpoint: Option<CheckpointRow>,
    /// What is damaged, by name where that is known.
    pub damage: Vec<String>,
    /// Datasets that would be mounted, and volumes that would be exported, if their keys were loaded.
    #[serde(default)]
    pub waiting: Vec<String>,
}

/// A device of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Its path, or where it was last.
    pub path: String,
    /// Its guid.
    pub guid: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes that it has besides, since it became larger.
    #[serde(default)]
    pub unused: u64,
    /// `ONLINE`, `RESILVERING`, `OFFLINE`, `FAULTED` or `MISSING`; `INCOMPLETE` if a resilver ended that could not
    /// copy everything to it; `REMOVING` if it is online and its group is being removed; `SLOW` if it is online and does not answer; of a
    /// spare `AVAIL`.
    pub state: String,
    /// The group that it belongs to; a spare to none.
    pub group: Option<u16>,
    /// Whether the group is there for logs only.
    pub is_log: bool,
    /// Whether it is of the second-level cache, and in no group.
    #[serde(default)]
    pub is_cache: bool,
    /// How many devices of the group may be lost, if it has parity; else 0.
    pub parity: usize,
    /// Which column of such a group it holds.
    pub column: u16,
    /// The path of the device whose place it takes.
    pub replaces: Option<String>,
    /// Whether it is a spare that stepped in.
    pub was_spare: bool,
    /// Reads that failed.
    pub read: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Copies that were not what they should be.
    pub checksum: u64,
    /// `direct` if it is read and written past the cache of the system, `buffered` if through it; none if it is no file
    /// or disk of this system, or not there.
    #[serde(default)]
    pub io: Option<String>,
}

/// What a pool's devices did since they were opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolIo {
    /// Its name.
    pub name: String,
    /// Bytes that are taken.
    pub allocated: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Its devices.
    pub devices: Vec<DeviceIo>,
    /// Those of the second-level cache.
    #[serde(default)]
    pub caches: Vec<CacheIo>,
}

/// A device of the second-level cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CacheIo {
    /// What was asked of it.
    pub device: DeviceIo,
    /// Bytes that it holds.
    pub allocated: u64,
    /// Bytes that it may hold besides.
    pub free: u64,
}

/// What a device did since it was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceIo {
    /// Its path.
    pub path: String,
    /// Nanoseconds since it was opened.
    pub elapsed: u64,
    /// Reads.
    pub read: Io,
    /// Writes.
    pub write: Io,
    /// Flushes.
    pub flush: Io,
    /// Discards.
    pub discard: Io,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Io {
    /// How many.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How long they took together, in nanoseconds.
    pub nanos: u64,
}

/// How far a scrub is, or how the last one ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScrubRow {
    /// `none`, `running`, `finished` or `stopped`.
    pub state: String,
    /// Seconds since 1970.
    pub started: u64,
    /// Seconds since 1970.
    pub ended: u64,
    /// Bytes read.
    pub examined: u64,
    /// Bytes there were to read when it began.
    pub total: u64,
    /// Copies that were repaired.
    pub repaired: u64,
    /// Records and nodes that could not be.
    pub errors: u64,
    /// Of these: those that a device failed to read. A copy on it may be good.
    #[serde(default)]
    pub unreadable: u64,
    /// Why it does not go on at the moment.
    pub waits: Option<String>,
}

/// How far the removal of a group of devices is, or how the last one ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemovalRow {
    /// `running`, `finished`, `stopping` or `stopped`.
    pub state: String,
    /// What goes: a device, or a group as `mirror-1`.
    pub name: String,
    /// Seconds since 1970.
    pub started: u64,
    /// Seconds since 1970.
    pub ended: u64,
    /// Bytes that were allocated there when it began.
    pub total: u64,
    /// How many are still to be copied.
    pub left: u64,
    /// Why it does not go on at the moment.
    pub waits: Option<String>,
}

/// An earlier state of a pool that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckpointRow {
    /// Its transaction group.
    pub txg: u64,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// Bytes that nothing else has any more.
    pub bytes: u64,
}

/// How far work on the free space of a pool is, or how the last one ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepRow {
    /// `running`, `finished`, `paused` or `stopped`.
    pub state: String,
    /// Seconds since 1970.
    pub started: u64,
    /// Seconds since 1970.
    pub ended: u64,
    /// Segments that were looked at.
    pub examined: u64,
    /// Segments there were when it began.
    pub total: u64,
    /// Bytes of free space that it was done to, parity included.
    pub bytes: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Why the last of them failed.
    pub error: Option<String>,
    /// The only device that it is done to; all if there is none.
    pub device: Option<String>,
}

/// A pool that is not imported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImportablePool {
    /// Its name, if a superblock could be read.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// `ONLINE`, `DEGRADED`, or why it cannot be imported.
    pub state: String,
    /// The host that has it, or had it last.
    pub host: String,
    /// The number of that host; 0 if it has none, or it is not known.
    #[serde(default)]
    pub host_id: u32,
    /// When the pool was last written, seconds since 1970.
    #[serde(default)]
    pub last_written: u64,
    /// Whether that host did not export it.
    pub active: bool,
    /// The devices that were found.
    pub devices: Vec<String>,
    /// Devices that are missing, where they were last.
    pub missing: Vec<String>,
}

/// What a pool has that not every program knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolFeatures {
    /// The pool.
    pub name: String,
    /// The version of its format.
    pub format: u32,
    /// All features that the daemon knows.
    pub features: Vec<FeatureRow>,
}

/// A feature of pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FeatureRow {
    /// What it is called.
    pub name: String,
    /// Whether the pool has it, so that only programs which know it can import the pool.
    pub active: bool,
    /// The first version of this program that knows it.
    pub since: String,
    /// What a pool that has it may hold.
    pub what: String,
    /// What switches it on.
    pub begins: String,
}

/// A line of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryRow {
    /// Seconds since 1970.
    pub time: u64,
    /// The transaction group.
    pub txg: u64,
    /// Whether the pool did it by itself.
    pub internal: bool,
    /// `user on host`
    pub who: String,
    /// What.
    pub text: String,
}

/// Something that happened to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// Its number. Later ones have greater numbers, from 1 on since the daemon started.
    pub id: u64,
    /// When it was noticed, in seconds since 1970.
    pub time: u64,
    /// What kind it is.
    pub class: String,
    /// The pool.
    pub pool: String,
    /// What happened.
    pub text: String,
}
