//! What commands return: rows of lists, and reports.

use serde::{Deserialize, Serialize};

/// A dataset or snapshot with properties, in the order in which they were asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DatasetRow {
    /// Its whole name.
    pub name: String,
    /// `filesystem` or `snapshot`.
    pub kind: String,
    /// Its properties.
    pub props: Vec<PropertyRow>,
}

/// A property.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PropertyRow {
    /// Its name.
    pub property: String,
    /// Its value.
    pub value: Value,
    /// Where that comes from.
    pub source: Source,
}

/// A value, before it is made readable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// It does not apply.
    None,
    /// A word.
    Text(String),
    /// A size.
    Bytes(u64),
    /// A count or a number.
    Number(u64),
    /// A ratio, in hundredths.
    Ratio(u64),
    /// A part of a whole, in hundredths.
    Percent(u64),
    /// Seconds since 1970.
    Time(u64),
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// It is counted or fixed.
    None,
    /// Nobody set it.
    Default,
    /// It was set here.
    Local,
    /// It was set on a dataset above.
    Inherited(String),
    /// It was given to the command that mounted it.
    Temporary,
}

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// `ONLINE`, `DEGRADED` or `SUSPENDED`.
    pub health: String,
    /// What is wrong, if something is.
    pub trouble: Option<String>,
    /// What to do about it.
    pub action: Option<String>,
    /// Bytes for records.
    pub size: u64,
    /// Of these, taken.
    pub allocated: u64,
    /// Of these, free.
    pub free: u64,
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
    /// The resilver.
    pub resilver: ScrubRow,
    /// The removal of a group that held data that is under way, or the last one.
    #[serde(default)]
    pub removal: Option<RemovalRow>,
    /// What is damaged, by name where that is known.
    pub damage: Vec<String>,
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
    /// `ONLINE`, `RESILVERING`, `OFFLINE`, `FAULTED` or `MISSING`; `REMOVING` if it is online and its group
    /// is being removed; of a spare `AVAIL`.
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
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Copies that were mended.
    pub repaired: u64,
    /// Records and nodes that could not be.
    pub errors: u64,
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

impl FeatureRow {
    /// A feature of a pool that has it or has not.
    pub fn new(feature: &pool::Feature, active: bool) -> FeatureRow {
        FeatureRow {
            name: feature.name.into(),
            active,
            since: feature.since.into(),
            what: feature.what.into(),
            begins: feature.begins.into(),
        }
    }
}

/// Something that is mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountRow {
    /// The dataset or snapshot.
    pub name: String,
    /// Where.
    pub dir: String,
    /// Whether it refuses changes.
    pub read_only: bool,
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

/// The key of a dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyRow {
    /// The dataset.
    pub name: String,
    /// The dataset whose key unwraps it.
    pub key_root: String,
    /// `available` or `unavailable`.
    pub status: String,
    /// Where the key comes from.
    pub keysource: String,
}

/// Data keys of a dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GenerationRow {
    /// Their number.
    pub generation: u32,
    /// The transaction group that made them.
    pub txg: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// `newest`, `in use`, `pinned` (by snapshots only), `unused`, or `foreign` (its key does not open them).
    pub state: String,
    /// Records of the dataset that are sealed with them.
    pub records: u64,
    /// Bytes on disk of these.
    pub bytes: u64,
    /// Snapshots with such records.
    pub snapshots: Vec<String>,
}

/// What differs between two states of a dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiffReport {
    /// Files and directories, by path; absent if the key is not loaded.
    pub files: Option<Vec<DiffRow>>,
    /// Records of metadata that only the earlier state has, and those that only the later one has.
    pub metadata: [u64; 2],
    /// The same of contents of files.
    pub contents: [u64; 2],
}

/// What became of a file or directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiffRow {
    /// `+`, `-`, `M` or `R`.
    pub change: String,
    /// What it is, as a letter of `ls -F`, or `F` for a file.
    pub kind: String,
    /// Where it is mounted, or else from the root of the dataset on. Bytes that are no printable ASCII are octal.
    pub path: String,
    /// What it is called now, if it was renamed.
    pub new_path: Option<String>,
    /// When it changed last: seconds since 1970,
    pub time: i64,
    /// and nanoseconds.
    pub nanos: u32,
}

/// A tag on a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldRow {
    /// The snapshot.
    pub name: String,
    /// The tag.
    pub tag: String,
    /// Seconds since 1970.
    pub time: u64,
}

/// Whether something is a user's or a group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerKind {
    /// A user's.
    User,
    /// A group's.
    Group,
}

/// What a user or group has in a dataset, and may have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccountRow {
    /// Which of the two.
    pub kind: OwnerKind,
    /// Its uid or gid.
    pub id: u32,
    /// Its name, if it has one here.
    pub name: Option<String>,
    /// Bytes of contents that are not holes, before compression.
    pub used: u64,
    /// How many bytes that may be.
    pub quota: Option<u64>,
    /// Files, directories and the like.
    pub objects_used: u64,
    /// How many that may be.
    pub object_quota: Option<u64>,
}

/// A way to the key of a dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlotRow {
    /// The dataset that has the slot.
    pub key_root: String,
    /// Its number.
    pub slot: u32,
    /// `passphrase`, `key` or `unknown`.
    pub kind: String,
    /// Slots with a higher one are tried first.
    pub priority: u8,
    /// Seconds since 1970.
    pub created: u64,
    /// What a guess costs, of a passphrase.
    pub cost: Option<String>,
}

/// The structures of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inspection {
    /// The pool's name and guid.
    pub pool: String,
    /// Its guid.
    pub guid: u64,
    /// Superblocks, the newest first.
    pub superblocks: Vec<SuperblockRow>,
    /// Datasets and snapshots.
    pub datasets: Vec<InspectedDataset>,
    /// Bytes for records, and free.
    pub total: u64,
    /// Bytes free.
    pub free: u64,
    /// The check, if one was asked for.
    pub check: Option<CheckRow>,
}

/// A superblock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SuperblockRow {
    /// Its transaction group.
    pub txg: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// What became of the pool.
    pub state: String,
    /// The host.
    pub host: String,
}

/// What is known of a dataset without its key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InspectedDataset {
    /// Its name.
    pub name: String,
    /// Its id in the pool.
    pub id: u64,
    /// Its guid.
    pub guid: u64,
    /// Its family.
    pub family: u64,
    /// The transaction group that made it.
    pub created_txg: u64,
    /// The suite of its records.
    pub suite: String,
    /// The size of a volume and of its blocks, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<(u64, u32)>,
    /// Bytes that it reaches.
    pub referenced: u64,
    /// Bytes in its deadlist.
    pub dead: u64,
    /// How many times it was sealed.
    pub sequence: u64,
    /// The seal, in hexadecimal.
    pub seal: String,
    /// The roots of its arrays.
    pub roots: Vec<PointerRow>,
    /// The keyring: generation by generation.
    pub keychain: Vec<KeychainRow>,
    /// What is wrong with the keyring, if it cannot be read.
    pub keychain_error: Option<String>,
    /// Some of its records, if asked for.
    pub records: Vec<PointerRow>,
    /// Its log, if it has one.
    #[serde(default)]
    pub log: Option<LogRow>,
}

/// What is known of a log without the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRow {
    /// Names the ring, in hexadecimal.
    pub chain: String,
    /// The number of its first entry.
    pub sequence: u64,
    /// The arrays hold everything up to this transaction group.
    pub base: u64,
    /// Where the first entry is in the first chunk.
    pub offset: u32,
    /// Its chunks.
    pub chunks: Vec<ChunkRow>,
    /// How many whole entries it has.
    pub count: u64,
    /// Whether an entry is damaged that had been durable.
    pub is_damaged: bool,
    /// Some of its entries, if asked for.
    pub entries: Vec<LogEntryRow>,
}

/// A run of units that a log lies in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChunkRow {
    /// `group/segment:offset`.
    pub place: String,
    /// Bytes.
    pub size: u32,
}

/// The clear header of an entry of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogEntryRow {
    /// Its number in the chain.
    pub sequence: u64,
    /// Entries up to this one were durable when it was written.
    pub flushed: u64,
    /// `group/segment:offset`.
    pub place: String,
    /// Bytes, header included.
    pub size: u32,
    /// How many records it points to.
    pub records: u32,
    /// The generation of the keyring.
    pub generation: u32,
    /// Nonce and tag, in hexadecimal.
    pub identity: String,
}

/// A generation of a keyring.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeychainRow {
    /// Its number.
    pub generation: u32,
    /// The transaction group that made it.
    pub txg: u64,
    /// Bytes of its wrapped keys.
    pub wrapped_len: u64,
}

/// A record pointer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointerRow {
    /// `pages` or `data`, and the slot where it is a record.
    pub what: String,
    /// Levels above the records.
    pub level: u8,
    /// `group/segment:offset` of each copy.
    pub places: Vec<String>,
    /// Bytes on disk of one copy.
    pub disk_size: u32,
    /// Bytes before compression.
    pub logical_size: u32,
    /// When it was written.
    pub birth: u64,
    /// The generation of the keyring.
    pub generation: u32,
    /// The checksum, in hexadecimal.
    pub checksum: String,
    /// Nonce and tag of a record, or hash of a node, in hexadecimal.
    pub identity: String,
}

/// The outcome of a check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckRow {
    /// Datasets and snapshots visited.
    pub datasets: u64,
    /// Records visited.
    pub records: u64,
    /// Nodes visited.
    pub nodes: u64,
    /// Bytes accounted for.
    pub bytes: u64,
    /// What is wrong, the first of it.
    pub findings: Vec<String>,
    /// How many things are wrong.
    pub count: u64,
}

/// The daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonReport {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Its socket.
    pub socket: String,
    /// The processor features that its ciphers use.
    pub hardware: String,
    /// Imported pools.
    pub pools: Vec<String>,
}

/// What became of datasets whose keys were destroyed with them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ShredReport {
    /// The datasets and snapshots that went, or would go.
    pub destroyed: Vec<String>,
    /// How many keyrings were wrapped by a random key before they were overwritten.
    pub rewrapped: usize,
    /// Datasets whose keys were not loaded, so that their keyrings were overwritten as they were.
    pub not_rewrapped: Vec<String>,
    /// How many key blocks were overwritten, and read as zeros in every copy on every device.
    pub key_blocks: usize,
    /// How many devices the pool has.
    pub devices: usize,
    /// What stays readable with the keys of other datasets.
    pub survivors: Vec<Survivor>,
}

/// What of a dataset stays readable after its keys were destroyed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survivor {
    /// The dataset that goes.
    pub dataset: String,
    /// The one that has some of its data keys.
    pub kept_by: String,
    /// Which.
    pub generations: Vec<u32>,
    /// How many records of the dataset are sealed with them.
    pub records: u64,
    /// Their bytes on disk.
    pub bytes: u64,
}

/// What is allowed on a dataset, or below it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PermissionRow {
    /// The dataset that says so.
    pub dataset: String,
    /// `local` (on the dataset itself), `descendent` (below it), `local+descendent`, `create` (on what is made
    /// below) or `set`.
    pub scope: String,
    /// What kind of name it is.
    pub kind: super::WhoKind,
    /// Whom it is allowed to; empty for everyone.
    pub name: String,
    /// What.
    pub permissions: Vec<String>,
}

/// A zone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ZoneRow {
    /// Its name.
    pub name: String,
    /// The dataset that is its root, as it is called now; absent if its pool is not imported.
    pub dataset: Option<String>,
    /// What that is called in the zone.
    pub alias: String,
    /// Whether the tenant cannot change the root itself.
    pub immutable: bool,
    /// Who besides root may use it: a user, or after a colon a group.
    pub owner: Option<String>,
    /// Where it listens.
    pub socket: String,
}

/// An export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportRow {
    /// What clients call it.
    pub name: String,
    /// The device.
    pub device: String,
    /// What it is, for people; empty if nobody said.
    pub description: String,
    /// How large it is, in bytes; absent if it is not open.
    pub size: Option<u64>,
    /// Whether clients cannot change it.
    pub read_only: bool,
    /// Where it is offered: `unix:PATH` or `HOST:PORT`.
    pub listen: String,
    /// The same with its name, as clients write it.
    pub uri: String,
    /// How many use it.
    pub connections: usize,
    /// Why it is not open.
    pub failure: Option<String>,
}

/// An open mapping.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MappingRow {
    /// Its name.
    pub name: String,
    /// `LUKS1`, `LUKS2` or `PLAIN`.
    pub kind: String,
    /// The file or disk.
    pub device: String,
    /// Where the header is, if elsewhere.
    pub header: Option<String>,
    /// The UUID of the container.
    pub uuid: Option<String>,
    /// The key slot that opened it.
    pub slot: Option<u32>,
    /// As `aes-xts-plain64`.
    pub cipher: String,
    /// The length of its key.
    pub key_bits: usize,
    /// What is encrypted as one, in bytes.
    pub sector_size: u32,
    /// Where data begins on the device, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub size: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discards are passed on.
    pub allow_discards: bool,
    /// Whether reads are queued.
    pub read_workqueue: bool,
    /// Whether writes are queued.
    pub write_workqueue: bool,
    /// How many use it.
    pub users: usize,
    /// Reads on the thread that asked.
    pub read_inline: MappingTimes,
    /// Reads by the pool of threads.
    pub read_queued: MappingTimes,
    /// Writes on the thread that asked.
    pub write_inline: MappingTimes,
    /// Writes by the pool of threads.
    pub write_queued: MappingTimes,
}

/// What a mapping served in one form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MappingTimes {
    /// Requests.
    pub count: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// What half of them took at most, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// What 99 of 100 took at most.
    pub p99_ns: Option<u64>,
    /// What 999 of 1000 took at most.
    pub p999_ns: Option<u64>,
}
