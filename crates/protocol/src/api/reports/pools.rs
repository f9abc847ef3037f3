//! Answers about pools and their devices.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReport {
    /// The name of the pool.
    pub name: String,
    /// The guid of the pool.
    pub guid: u64,
    /// `ONLINE`, `DEGRADED`, `SUSPENDED`, or `STALLED` while a device does not answer; `UNAVAIL` if it was in use here
    /// and is not imported now.
    pub health: String,
    /// The problem, if there is one.
    pub trouble: Option<String>,
    /// The advice for the trouble.
    pub action: Option<String>,
    /// Bytes for records.
    pub size: u64,
    /// The allocated bytes of the size.
    pub allocated: u64,
    /// The bytes of the size that are free for writers.
    pub free: u64,
    /// The fullness of the pool, if it needs attention and `trouble` says something worse.
    #[serde(default)]
    pub space_low: Option<String>,
    /// Bytes for records that there would be more if each device were used whole.
    #[serde(default)]
    pub expandable: u64,
    /// The ratio of the space that shared records would take without dedup to the space that they take.
    pub dedupratio: f64,
    /// True if something destroyed still has to be given back.
    pub freeing: bool,
    /// True if it was imported read-only.
    pub read_only: bool,
    /// The last transaction group that is durable.
    pub txg: u64,
    /// The devices of the pool.
    pub devices: Vec<DeviceRow>,
    /// The scrub.
    pub scrub: ScrubRow,
    /// The advice for a scrub that is too long ago.
    #[serde(default)]
    pub scrub_late: Option<String>,
    /// The directory before the mountpoints.
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
    /// The snapshots of the pool that nobody can destroy yet.
    #[serde(default)]
    pub retention: Option<RetentionRow>,
    /// The image in an object store that follows the pool.
    #[serde(default)]
    pub follower: Option<FollowerRow>,
    /// The damaged files and records, by name where that is known.
    pub damage: Vec<String>,
    /// Datasets that would be mounted, and volumes that would be exported, if their keys were loaded.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// The state that is read, if the pool was imported read-only from an object store.
    #[serde(default)]
    pub reader: Option<ReaderRow>,
}

/// The state of a pool that a reader has, while another host may write to the pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReaderRow {
    /// The time of its commit, in seconds since 1970, by the clock of the writer.
    pub time: u64,
    /// The time when it was the newest state, as far as is known, in seconds since 1970.
    pub checked: u64,
    /// True if objects of the state were removed.
    pub is_outdated: bool,
    /// The seconds between refreshes; 0 if there are none.
    pub refresh: u64,
}

/// A state of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStateRow {
    /// The time of its commit, in seconds since 1970.
    pub time: u64,
    /// The transaction group.
    pub txg: u64,
}

/// The outcome of a refresh.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefreshReport {
    /// The name of the pool.
    pub pool: String,
    /// The state before.
    pub from: PoolStateRow,
    /// The newest state.
    pub to: PoolStateRow,
}

/// An image of a pool in an object store, which has the state of one commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FollowerRow {
    /// The address of the store.
    pub path: String,
    /// The age that the image may have, in seconds.
    pub interval: u64,
    /// `current`, `behind`, or `away` if the store is not reached.
    pub state: String,
    /// The time for which it lacks a commit, in seconds.
    pub behind: u64,
    /// The transaction group whose state it has.
    pub txg: Option<u64>,
    /// The time of that commit, in seconds since 1970.
    pub time: Option<u64>,
    /// The reason why the last attempt to copy a state failed.
    pub problem: Option<String>,
    /// The bytes that were copied since the import.
    pub copied: u64,
    /// The number of damaged records that could not be copied since the import, or since a copy of the whole pool.
    #[serde(default)]
    pub lost: u64,
}

/// A device of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceRow {
    /// The path of the device, now or last.
    pub path: String,
    /// The guid of the device.
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
    /// True if the group is there for logs only.
    pub is_log: bool,
    /// True if it is of the second-level cache, and in no group.
    #[serde(default)]
    pub is_cache: bool,
    /// The number of devices that the group can lose, if it has parity; otherwise 0.
    pub parity: usize,
    /// The column of such a group that the device holds.
    pub column: u16,
    /// The path of the device whose place it takes.
    pub replaces: Option<String>,
    /// True if it is a spare that stepped in.
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

/// The operations of a pool's devices since they were opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolIoReport {
    /// The name of the pool.
    pub name: String,
    /// Bytes that are taken.
    pub allocated: u64,
    /// Bytes that are free.
    pub free: u64,
    /// The devices of the pool.
    pub devices: Vec<DeviceIo>,
    /// The devices of the second-level cache.
    #[serde(default)]
    pub caches: Vec<CacheIo>,
}

/// A device of the second-level cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CacheIo {
    /// The operations of the device.
    pub device: DeviceIo,
    /// Bytes that it holds.
    pub allocated: u64,
    /// Bytes that it may hold besides.
    pub free: u64,
}

/// The operations of a device since it was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceIo {
    /// The path of the device.
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
    /// The requests to its object store, if it lies on one.
    #[serde(default)]
    pub store: Option<StoreIo>,
}

/// The requests to an object store since the device was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreIo {
    /// Requests that create or replace objects.
    pub puts: u64,
    /// Requests that read objects.
    pub gets: u64,
    /// Requests that list objects.
    pub lists: u64,
    /// Requests that remove objects.
    pub deletes: u64,
    /// Requests that had no answer, and were repeated. They count above too.
    pub repeated: u64,
    /// Bytes of objects that were sent.
    pub sent: u64,
    /// Bytes of objects that were received.
    pub received: u64,
    /// The price of all this, if the prices are known.
    pub cost: Option<f64>,
    /// The currency of the price.
    pub currency: Option<String>,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Io {
    /// The number of operations.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// The number of operations that failed.
    pub errors: u64,
    /// The time that they took together, in nanoseconds.
    pub nanos: u64,
}

/// The progress of a scrub, or the result of the last one.
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
    /// The errors of these that a device reported at a read. A copy on it may be good.
    #[serde(default)]
    pub unreadable: u64,
    /// The reason for which the scrub waits at the moment.
    pub waits: Option<String>,
}

/// The amount that a scrub has to read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubEstimate {
    /// The pool.
    pub pool: String,
    /// Bytes that it reads at least.
    pub bytes: u64,
    /// The address of the object store, if the pool lies on one.
    pub store: Option<String>,
    /// The requests to the store that it takes at least. Each small file or block may take one more.
    pub requests: u64,
    /// The price of all this, if the prices are known.
    pub cost: Option<f64>,
    /// The currency of the price.
    pub currency: Option<String>,
}

impl fmt::Display for ScrubEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Providers count in these.
        let gigabytes = self.bytes.div_ceil(10_000_000) as f64 / 100.0;
        write!(
            f,
            "the scrub of '{}' reads at least {gigabytes:.2} GB",
            self.pool
        )?;
        let Some(store) = &self.store else {
            return Ok(());
        };
        write!(f, " from {store}, in at least {} requests", self.requests)?;
        if let (Some(cost), Some(currency)) = (self.cost, &self.currency) {
            write!(f, ", for at least {cost:.4} {currency}")?;
        }
        f.write_str("; each small file or block may take one request more")
    }
}

/// The progress of the removal of a group of devices, or the result of the last one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemovalRow {
    /// `running`, `finished`, `stopping` or `stopped`.
    pub state: String,
    /// The device that is removed, or the group, such as `mirror-1`.
    pub name: String,
    /// Seconds since 1970.
    pub started: u64,
    /// Seconds since 1970.
    pub ended: u64,
    /// Bytes that were allocated there when it began.
    pub total: u64,
    /// The number of bytes that are still to be copied.
    pub left: u64,
    /// The reason for which the removal waits at the moment.
    pub waits: Option<String>,
}

/// An earlier state of a pool that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckpointRow {
    /// The transaction group of the checkpoint.
    pub txg: u64,
    /// The time of the checkpoint, in seconds since 1970.
    pub created: u64,
    /// Bytes that nothing else has any more.
    pub bytes: u64,
}

/// Snapshots that nobody can destroy before a time of their pool, and the pool neither.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RetentionRow {
    /// The end of the last of them, in seconds since 1970.
    pub until: u64,
    /// The time of the pool now.
    pub pool_time: u64,
}

/// The progress of work on the free space of a pool, or the result of the last one.
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
    /// The reason for which the last of them failed.
    pub error: Option<String>,
    /// The only device that it is done to; all if there is none.
    pub device: Option<String>,
}

/// A pool that is not imported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImportablePool {
    /// The name of the pool, if a superblock could be read.
    pub name: String,
    /// The guid of the pool.
    pub guid: u64,
    /// `ONLINE`, `DEGRADED`, or why it cannot be imported.
    pub state: String,
    /// The host that has it, or had it last.
    pub host: String,
    /// The number of that host; 0 if it has none, or it is not known.
    #[serde(default)]
    pub host_id: u32,
    /// The time of the last write to the pool, in seconds since 1970.
    #[serde(default)]
    pub last_written: u64,
    /// True if that host did not export it.
    pub active: bool,
    /// The devices that were found.
    pub devices: Vec<String>,
    /// Devices that are missing, where they were last.
    pub missing: Vec<String>,
}

/// The guarantees of an object store, as a check found them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoreProbeReport {
    /// The address of the store.
    pub store: String,
    /// True if a pool can rely on it.
    pub safe: bool,
    /// The guarantees.
    pub checks: Vec<StoreCheckRow>,
    /// The objects that could not be removed again.
    pub leftovers: Vec<String>,
    /// The requests that were sent.
    pub requests: u64,
    /// The bytes that were sent and received.
    pub bytes: u64,
}

/// A guarantee of an object store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoreCheckRow {
    /// The name.
    pub guarantee: String,
    /// True if no violation was found.
    pub holds: bool,
    /// The violation.
    pub how: Option<String>,
    /// The loss that a pool has without the guarantee.
    pub consequence: String,
}

/// The features of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FeatureReport {
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
    /// The name of the feature.
    pub name: String,
    /// True if the pool has it, so that only programs which know it can import the pool.
    pub active: bool,
    /// The first version of this program that knows it.
    pub since: String,
    /// The contents that a pool with the feature may have.
    pub what: String,
    /// The command or property that switches the feature on.
    pub begins: String,
}

/// A line of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryRow {
    /// Seconds since 1970.
    pub time: u64,
    /// The transaction group.
    pub txg: u64,
    /// True if the pool did it by itself.
    pub internal: bool,
    /// `user on host`
    pub who: String,
    /// The command line, or the event.
    pub text: String,
}

/// An event of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// The number of the event. Later events have greater numbers, from 1 on since the daemon started.
    pub id: u64,
    /// The time of the event, in seconds since 1970.
    pub time: u64,
    /// The class of the event.
    pub class: String,
    /// The pool.
    pub pool: String,
    /// The text of the event.
    pub text: String,
}
