//! What a command asks of the daemon, and what the daemon answers.
//!
//! Everything here travels as JSON in frames (see [`crate::wire`]); secrets do not, they have frames
//! of their own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The version of this protocol. Client and daemon are one binary, but not always of one day.
pub const API_VERSION: u32 = 1;

/// A request: the first frame of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`API_VERSION`]
    pub version: u32,
    /// What was typed, for the history of the pool. Never holds a secret.
    pub typed: String,
    /// What is wanted.
    pub command: Command,
}

/// Properties to set, as `name=value`.
pub type Props = Vec<(String, String)>;

/// What is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Make a pool with a root dataset.
    PoolCreate {
        /// Its name.
        pool: String,
        /// Files and disks, absolute.
        devices: Vec<PathBuf>,
        /// Make the files first, of this many bytes.
        size: Option<u64>,
        /// Overwrite what the devices hold.
        force: bool,
        /// Properties of the root dataset.
        props: Props,
        /// Leave the root dataset unmounted.
        no_mount: bool,
    },
    /// Say which pools could be imported.
    PoolImportable {
        /// Files, disks, or directories of such; the usual places if empty.
        search: Vec<PathBuf>,
    },
    /// Import a pool, or all.
    PoolImport {
        /// As above.
        search: Vec<PathBuf>,
        /// Name or guid; all pools if absent.
        pool: Option<String>,
        /// Another name for it.
        new_name: Option<String>,
        /// Change nothing on the devices.
        read_only: bool,
        /// Even if another host has it.
        force: bool,
        /// Leave its datasets unmounted.
        no_mount: bool,
        /// Load the keys that need nobody to type.
        load_keys: bool,
    },
    /// Let go of a pool.
    PoolExport {
        /// Its name.
        pool: String,
        /// Unmount what is in use.
        force: bool,
    },
    /// Destroy a pool.
    PoolDestroy {
        /// Its name.
        pool: String,
        /// Unmount what is in use.
        force: bool,
    },
    /// The state of pools; of all if none is named.
    PoolStatus {
        /// Their names.
        pools: Vec<String>,
    },
    /// Begin, or stop, reading everything.
    PoolScrub {
        /// The pool.
        pool: String,
        /// Stop it instead.
        stop: bool,
    },
    /// What was done to a pool.
    PoolHistory {
        /// The pool.
        pool: String,
        /// Also what the pool did by itself.
        internal: bool,
    },
    /// Make a dataset.
    Create {
        /// Its name.
        name: String,
        /// Its properties.
        props: Props,
        /// Make the datasets above it too.
        parents: bool,
        /// Leave it unmounted.
        no_mount: bool,
    },
    /// Destroy datasets or snapshots.
    Destroy {
        /// Its name.
        name: String,
        /// With everything below it.
        recursive: bool,
        /// Unmount what is in use.
        force: bool,
        /// Only say what would go.
        dry_run: bool,
    },
    /// Give a dataset or snapshot another name.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Look at properties.
    Get {
        /// Datasets and snapshots; all if none is named.
        names: Vec<String>,
        /// How many levels below them too; `None` is all.
        depth: Option<u32>,
        /// Also show snapshots of what is listed, where they were not named.
        snapshots: bool,
        /// Which properties; all if empty.
        props: Vec<String>,
    },
    /// Set properties.
    Set {
        /// Datasets.
        names: Vec<String>,
        /// Which, and to what.
        props: Props,
    },
    /// Unset a property, so that it is inherited.
    Inherit {
        /// Datasets.
        names: Vec<String>,
        /// Which.
        prop: String,
        /// Below them too.
        recursive: bool,
    },
    /// Mount a dataset or snapshot, or all.
    Mount {
        /// What; everything that mounts by itself if absent.
        name: Option<String>,
        /// Where, instead of where the property says.
        dir: Option<PathBuf>,
        /// Load the key first.
        load_keys: bool,
        /// Refuse changes.
        read_only: bool,
        /// Over a directory that is not empty.
        overlay: bool,
    },
    /// What is mounted where.
    Mounts,
    /// Unmount a dataset by its name or its directory, or all.
    Unmount {
        /// What; everything if absent.
        target: Option<String>,
        /// Even if it is in use.
        force: bool,
    },
    /// Make snapshots of one moment.
    Snapshot {
        /// `dataset@snapshot`
        names: Vec<String>,
        /// Below them too.
        recursive: bool,
    },
    /// Take a dataset back to a snapshot.
    Rollback {
        /// `dataset@snapshot`
        name: String,
        /// Destroy later snapshots.
        recursive: bool,
        /// Unmount what is in use.
        force: bool,
    },
    /// Load keys.
    KeyLoad {
        /// Datasets; all if none is named.
        names: Vec<String>,
        /// Below them too.
        recursive: bool,
        /// Where the key is, instead of where the property says.
        location: Option<String>,
        /// Only try whether the key is the right one.
        dry_run: bool,
    },
    /// Unload keys.
    KeyUnload {
        /// Datasets; all if none is named.
        names: Vec<String>,
        /// Below them too.
        recursive: bool,
        /// Unmount what is in use.
        force: bool,
    },
    /// Put another key in the place of a dataset's.
    KeyChange {
        /// The dataset.
        name: String,
        /// Where the new key comes from; as before if absent.
        keysource: Option<String>,
    },
    /// Whether keys are loaded.
    KeyStatus {
        /// Datasets; all if none is named.
        names: Vec<String>,
    },
    /// Look at the structures of a pool.
    Inspect {
        /// An imported pool's name, or the devices of one that is not.
        target: InspectTarget,
        /// How much to show.
        detail: u8,
        /// Check that every unit belongs to exactly one thing.
        check: bool,
    },
    /// Whether the daemon runs, and with what.
    DaemonStatus,
    /// Unmount everything and end.
    DaemonStop,
}

/// What to inspect.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InspectTarget {
    /// An imported pool.
    Pool(String),
    /// The devices of a pool that is not imported.
    Devices(Vec<PathBuf>),
}

/// A frame from the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Ask a person for a secret and send it in a frame of its own.
    Ask(Ask),
    /// Something to tell that does not end the command.
    Notice(String),
    /// Done.
    Done(Reply),
    /// Refused or failed.
    Failed(Failure),
}

/// A secret that is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// For which dataset.
    pub dataset: String,
    /// In which form.
    pub format: AskFormat,
    /// Ask twice: it is a new one.
    pub twice: bool,
}

/// What is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskFormat {
    /// A passphrase.
    Passphrase,
    /// A key of 64 hexadecimal digits.
    Hex,
}

/// Why a command failed, and with which exit code it ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What happened, to what, and what to do.
    pub message: String,
}

/// Kinds of failure. Their exit codes are an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Anything else.
    Other,
    /// There is no such pool, dataset, snapshot or property.
    NotFound,
    /// The name is taken.
    Exists,
    /// Something is in use.
    Busy,
    /// The caller may not do this.
    Permission,
    /// The key is the wrong one.
    WrongKey,
    /// The key is not loaded, or cannot be read where it should be.
    NoKey,
    /// Data, keys or structures are damaged.
    Damaged,
    /// The pool was written by a newer program.
    TooNew,
    /// There is no room.
    NoSpace,
    /// A device failed.
    Device,
    /// What was asked for makes no sense.
    Usage,
    /// The daemon cannot be reached.
    NoDaemon,
}

impl FailureKind {
    /// The exit code of a command that fails like this.
    pub const fn exit_code(self) -> u8 {
        match self {
            FailureKind::Other => 1,
            FailureKind::Usage => 2,
            FailureKind::NotFound => 3,
            FailureKind::Exists => 4,
            FailureKind::Busy => 5,
            FailureKind::Permission => 6,
            FailureKind::WrongKey => 7,
            FailureKind::NoKey => 8,
            FailureKind::Damaged => 9,
            FailureKind::TooNew => 10,
            FailureKind::NoSpace => 11,
            FailureKind::Device => 12,
            FailureKind::NoDaemon => 13,
        }
    }
}

/// What a command returns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Nothing but that it is done.
    Nothing,
    /// Names of what was made or went.
    Names(Vec<String>),
    /// Datasets with properties.
    Datasets(Vec<DatasetRow>),
    /// Pools.
    Pools(Vec<PoolReport>),
    /// Pools that could be imported.
    Importable(Vec<ImportablePool>),
    /// What is mounted.
    Mounts(Vec<MountRow>),
    /// The history.
    History(Vec<HistoryRow>),
    /// Keys.
    Keys(Vec<KeyRow>),
    /// An inspection.
    Inspection(Box<Inspection>),
    /// The daemon.
    Daemon(DaemonReport),
}

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
    /// What is damaged, by name where that is known.
    pub damage: Vec<String>,
}

/// A device of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Its path.
    pub path: String,
    /// Its guid.
    pub guid: u64,
    /// Bytes.
    pub size: u64,
    /// `ONLINE`
    pub state: String,
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
}

/// A pool that is not imported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImportablePool {
    /// Its name, if a superblock could be read.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// `ONLINE`, or why it cannot be imported.
    pub state: String,
    /// The host that has it, or had it last.
    pub host: String,
    /// Whether that host did not export it.
    pub active: bool,
    /// The devices that were found.
    pub devices: Vec<String>,
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
