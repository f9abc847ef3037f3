//! What a command asks of the daemon, and what the daemon answers.
//!
//! Everything here travels as JSON in frames (see [`crate::wire`]); secrets do not, they have frames
//! of their own.

mod anchor;
mod report;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use anchor::{Anchor, AnchorOutcome, AnchorRow};
pub use report::{
    AccountRow, CacheIo, CheckRow, ChunkRow, DaemonReport, DatasetRow, DeviceIo, DeviceRow,
    DiffReport, DiffRow, ExportRow, FeatureRow, GenerationRow, HistoryRow, HoldRow, ImportablePool,
    InspectedDataset, Inspection, Io, KeyRow, KeychainRow, LogEntryRow, LogRow, MappingRow,
    MappingTimes, MountRow, OwnerKind, PermissionRow, PointerRow, PoolFeatures, PoolIo, PoolReport,
    PropertyRow, RemovalRow, ScrubRow, ShredReport, SlotRow, Source, SuperblockRow, Survivor,
    Value, ZoneRow,
};

/// Every feature of pools that this program knows.
pub fn known_features() -> Vec<FeatureRow> {
    let features = pool::FEATURES.iter();
    features
        .map(|feature| FeatureRow::new(feature, false))
        .collect()
}

/// The newest format of pools; the first is 1.
pub const FORMAT_VERSION: u32 = store::layout::FORMAT_VERSION;

/// The version of this protocol. Client and daemon are one binary, but not always of one day.
pub const API_VERSION: u32 = 4;

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

/// A volume to make.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct NewVolume {
    /// Its size, in bytes.
    pub size: u64,
    /// Reserve no room for it.
    pub sparse: bool,
}

/// What is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Make a pool with a root dataset.
    PoolCreate {
        /// Its name.
        pool: String,
        /// Files and disks, absolute.
        devices: Box<PoolDevices>,
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
        /// Give up what waits in logs on devices that are not there.
        without_logs: bool,
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
    /// What the devices of pools did; of all pools if none is named.
    PoolIo {
        /// Their names.
        pools: Vec<String>,
    },
    /// Change which devices a pool is made of.
    PoolDevices {
        /// The pool.
        pool: String,
        /// How.
        change: DeviceChange,
    },
    /// Make everything durable that was written to pools; to all if none is named.
    PoolSync {
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
    /// What pools have that not every program knows; of all if none is named.
    PoolFeatures {
        /// Their names.
        pools: Vec<String>,
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
        /// Make it a volume.
        #[serde(default)]
        volume: Option<NewVolume>,
    },
    /// Destroy datasets or snapshots.
    Destroy {
        /// Its name.
        name: String,
        /// With everything below it.
        recursive: bool,
        /// With everything below it and all clones.
        clones: bool,
        /// Unmount what is in use.
        force: bool,
        /// Only say what would go.
        dry_run: bool,
    },
    /// Destroy datasets together with their keys, and prove it.
    Shred {
        /// The dataset.
        name: String,
        /// With everything below it.
        recursive: bool,
        /// With everything below it and all clones.
        clones: bool,
        /// Unmount what is in use.
        force: bool,
        /// Only say what would go, and what would stay readable.
        dry_run: bool,
    },
    /// Make a dataset that begins as a snapshot.
    Clone {
        /// The snapshot.
        snapshot: String,
        /// The name of the clone.
        name: String,
        /// Its properties.
        props: Props,
        /// With data keys of its own for what is written to it.
        rekey: bool,
        /// Make the datasets above it too.
        parents: bool,
        /// Leave it unmounted.
        no_mount: bool,
    },
    /// Have a clone own what it shares with its origin.
    Promote {
        /// The clone.
        name: String,
    },
    /// Put a tag on snapshots, which keeps them from being destroyed.
    Hold {
        /// The snapshots.
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// Of the same names below, too.
        recursive: bool,
    },
    /// Take a tag away.
    Release {
        /// The snapshots.
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// Of the same names below, too.
        recursive: bool,
    },
    /// Which tags snapshots have.
    Holds {
        /// The snapshots.
        names: Vec<String>,
        /// Of the same names below, too.
        recursive: bool,
    },
    /// Send a snapshot: data follows.
    Send {
        /// What.
        what: SendWhat,
        /// As it is stored.
        raw: bool,
        /// With the properties of the dataset.
        props: bool,
    },
    /// Receive what is sent: data follows once the daemon is ready.
    Receive {
        /// A dataset, or a snapshot of one by its whole name.
        target: String,
        /// Take it back to where the stream goes on.
        force: bool,
        /// Keep what came if it is interrupted.
        resumable: bool,
        /// Properties for it, in the place of those that came.
        props: Props,
        /// Properties that are left out.
        exclude: Vec<String>,
    },
    /// Tell what differs between a snapshot and a later one.
    Diff {
        /// The snapshot.
        from: String,
        /// A later one, `@name` for one of the same dataset, or a dataset; its own if it is left out.
        to: Option<String>,
    },
    /// Throw away what an interrupted receive left.
    ReceiveAbandon {
        /// The dataset.
        target: String,
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
        /// Also a smaller size of a volume.
        #[serde(default)]
        force: bool,
    },
    /// What users or groups have in a dataset and may have.
    Userspace {
        /// The dataset.
        name: String,
        /// Which of the two.
        kind: OwnerKind,
        /// Count anew first, and fail if something else was counted.
        check: bool,
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
        /// What else it allows, where that is not as the properties say.
        #[serde(default)]
        allowed: Allowed,
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
        /// The same with its format: `FORMAT,LOCATION`.
        keysource: Option<String>,
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
        /// Put it into this slot only.
        slot: Option<u32>,
        /// In the place of all slots.
        only: bool,
        /// Use the key of the dataset above instead.
        inherit: bool,
    },
    /// Give a dataset new data keys.
    KeyRotate {
        /// The dataset.
        name: String,
        /// How.
        how: Rotation,
    },
    /// Which data keys there are, and what needs them.
    KeyGenerations {
        /// The dataset.
        name: String,
    },
    /// Add a slot to a dataset's key.
    KeyAdd {
        /// The dataset.
        name: String,
        /// Where the new key comes from.
        keysource: Option<String>,
        /// Slots with a higher one are tried first.
        priority: u8,
    },
    /// Remove a slot.
    KeyRemove {
        /// The dataset.
        name: String,
        /// Its number.
        slot: u32,
        /// Where the key comes from then.
        keysource: Option<String>,
        /// Even if that opens nothing.
        force: bool,
    },
    /// Which slots there are.
    KeySlots {
        /// The dataset.
        name: String,
    },
    /// Copy keyrings.
    KeyBackup {
        /// The dataset; with it those that have their key from it.
        name: String,
    },
    /// Put keyrings back.
    KeyRestore {
        /// The dataset.
        name: String,
        /// The backup, in hexadecimal digits.
        backup: String,
        /// Where the key that opens it comes from; from where it did if absent.
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
    /// What to keep elsewhere of the state of datasets.
    Anchor {
        /// With everything below them; all if none is named.
        names: Vec<String>,
    },
    /// Compare datasets with what was kept.
    AnchorVerify {
        /// What was kept.
        anchors: Vec<Anchor>,
    },
    /// Who may do what to a dataset.
    Permissions {
        /// The dataset.
        name: String,
    },
    /// Allow something, or allow it no longer.
    ChangePermissions(PermissionChange),
    /// Give a tenant a socket of its own that reaches one dataset and what is below it.
    ZoneCreate(NewZone),
    /// Take the socket away.
    ZoneDestroy {
        /// The zone.
        name: String,
    },
    /// Which zones there are.
    Zones,
    /// Offer a device to others.
    NbdExport(Box<NewExport>),
    /// Take an export back.
    NbdUnexport {
        /// The export.
        name: String,
        /// Also from those who use it.
        force: bool,
    },
    /// Which exports there are.
    NbdExports,
    /// Open a container.
    LuksOpen(Box<OpenMapping>),
    /// Close a mapping.
    LuksClose {
        /// The mapping.
        name: String,
    },
    /// Which mappings are open, and how they do.
    LuksStatus {
        /// These; all if there are none.
        names: Vec<String>,
    },
    /// Change how a mapping is served.
    LuksRefresh {
        /// The mapping.
        name: String,
        /// What changes.
        change: MappingChange,
    },
    /// Make a mapping larger or smaller.
    LuksResize {
        /// The mapping.
        name: String,
        /// So many bytes; as many as the device has if absent.
        size: Option<u64>,
    },
    /// Whether the daemon runs, and with what.
    DaemonStatus,
    /// Unmount everything and end.
    DaemonStop,
}

/// A zone to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewZone {
    /// Its name.
    pub name: String,
    /// The dataset that is its root.
    pub dataset: String,
    /// What the root is called in the zone; the last part of its name if absent.
    pub alias: Option<String>,
    /// Whether the tenant cannot change the root itself.
    pub immutable: bool,
    /// Who besides root may use it: a user, or after a colon a group.
    pub owner: Option<String>,
}

/// An export to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewExport {
    /// The device, as `Exportable` in the daemon has it: an absolute path.
    pub device: String,
    /// What clients call it; the last part of the path if absent.
    pub name: Option<String>,
    /// What it is, for people.
    pub description: Option<String>,
    /// Whether clients cannot change it.
    pub read_only: bool,
    /// `unix:PATH` or `HOST:PORT`; a socket beside the daemon's if absent.
    pub listen: Option<String>,
    /// A directory with certificates, for TCP.
    pub tls_certificates: Option<PathBuf>,
}

/// A container to open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenMapping {
    /// The file or disk.
    pub device: PathBuf,
    /// Where the header is, if elsewhere.
    pub header: Option<PathBuf>,
    /// What the mapping is called.
    pub name: String,
    /// A file that is the passphrase; somebody is asked if absent.
    pub key_file: Option<PathBuf>,
    /// Only this key slot.
    pub key_slot: Option<u32>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discards are passed on.
    pub allow_discards: bool,
    /// Whether reads are queued.
    pub read_workqueue: bool,
    /// Whether writes are queued.
    pub write_workqueue: bool,
    /// What a header would say, if there is none.
    pub plain: Option<PlainMapping>,
}

/// A mapping without a header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlainMapping {
    /// As `aes-xts-plain64`.
    pub cipher: String,
    /// The length of the key, in bytes.
    pub key_len: usize,
    /// What makes it of a passphrase.
    pub hash: String,
    /// Where data begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes; to the end of the device if absent.
    pub len: Option<u64>,
    /// The number of the first sector.
    pub skip: u64,
    /// What is encrypted as one, in bytes.
    pub sector_size: u32,
}

/// How a mapping is to be served; what is absent stays.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MappingChange {
    /// Whether reads are queued.
    pub read_workqueue: Option<bool>,
    /// Whether writes are queued.
    pub write_workqueue: Option<bool>,
    /// Whether discards are passed on.
    pub allow_discards: Option<bool>,
}

/// What is to be allowed, to whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PermissionChange {
    /// The dataset.
    pub name: String,
    /// Whether it is to be allowed no longer.
    pub remove: bool,
    /// Names or numbers; one, which does not matter, for everyone.
    pub who: Vec<String>,
    /// What they are names of; of users or else of groups if absent.
    pub kind: Option<WhoKind>,
    /// Which permissions; with `remove` all if there are none.
    pub permissions: Vec<String>,
    /// On the dataset itself.
    pub local: bool,
    /// On what is below it.
    pub below: bool,
}

/// Whom something is allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhoKind {
    /// A user.
    User,
    /// The members of a group.
    Group,
    /// Everybody on the machine.
    Everyone,
    /// Whoever makes a dataset below, on that dataset.
    Creator,
    /// Nobody: permissions that have a name, beginning with `@`.
    Set,
}

/// What to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendWhat {
    /// A snapshot.
    Snapshot {
        /// Its name.
        name: String,
        /// What is new since this one, an earlier snapshot; `@name` is one of the same dataset.
        from: Option<String>,
        /// The snapshots between them too.
        all: bool,
    },
    /// What a receive that was interrupted lacks.
    Rest {
        /// Its token.
        token: String,
    },
}

/// What to do about the data keys of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// New ones for what is written from now on.
    New,
    /// The same, and bring what is stored to them.
    Reencrypt,
    /// Stop bringing it.
    Pause,
    /// Go on.
    Resume,
}

/// What a mount allows; what the properties say where that is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// Programs can be run.
    pub exec: Option<bool>,
    /// Set-user-ID and set-group-ID bits have effect.
    pub setuid: Option<bool>,
    /// Device nodes can be opened.
    pub devices: Option<bool>,
}

/// Devices that form a pool, or more of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PoolDevices {
    /// The groups.
    pub groups: Vec<DeviceGroup>,
    /// Those that are there for logs only.
    pub logs: Vec<DeviceGroup>,
    /// Those of the second-level cache.
    #[serde(default)]
    pub caches: Vec<PathBuf>,
    /// Those that wait.
    pub spares: Vec<PathBuf>,
}

/// Devices that hold data together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceGroup {
    /// Which.
    pub devices: Vec<PathBuf>,
    /// How many of them may be lost in a group with parity; 0: all hold the same.
    pub parity: usize,
}

/// A change to the devices of a pool. Devices of the pool are named by path or guid.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceChange {
    /// More groups or spares.
    Add {
        /// Which.
        devices: Box<PoolDevices>,
        /// Overwrite what they hold, and accept different redundancy.
        force: bool,
    },
    /// One more member beside another.
    Attach {
        /// Beside which.
        device: String,
        /// The new one.
        new: PathBuf,
        /// Overwrite what it holds.
        force: bool,
    },
    /// One member less.
    Detach {
        /// Which.
        device: String,
    },
    /// One device in the place of another.
    Replace {
        /// The old one.
        device: String,
        /// The new one; if absent, what is now where the old one was.
        new: Option<PathBuf>,
        /// Overwrite what it holds.
        force: bool,
    },
    /// One spare less, or one group of devices.
    Remove {
        /// Which.
        device: String,
        /// Not to return before a group that holds data is gone.
        wait: bool,
    },
    /// Leave the group in use that is being removed.
    StopRemove,
    /// Leave a member alone.
    Offline {
        /// Which.
        device: String,
        /// Until the next import only.
        temporary: bool,
    },
    /// Take a member back.
    Online {
        /// Which.
        device: String,
    },
    /// Forget failures, and try again what failed.
    Clear {
        /// Of which device; of all if absent.
        device: Option<String>,
    },
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
    /// Send the data now.
    Ready,
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
    /// What opens a token.
    Pin,
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
    /// What was destroyed with its keys.
    Shredded(ShredReport),
    /// Datasets with properties.
    Datasets(Vec<DatasetRow>),
    /// Pools.
    Pools(Vec<PoolReport>),
    /// What devices did.
    Io(Vec<PoolIo>),
    /// Pools that could be imported.
    Importable(Vec<ImportablePool>),
    /// What is mounted.
    Mounts(Vec<MountRow>),
    /// What pools have that not every program knows.
    Features(Vec<PoolFeatures>),
    /// The history.
    History(Vec<HistoryRow>),
    /// What differs.
    Diff(DiffReport),
    /// Tags on snapshots.
    Holds(Vec<HoldRow>),
    /// What users or groups have.
    Accounts(Vec<AccountRow>),
    /// Keys.
    Keys(Vec<KeyRow>),
    /// Generations of data keys.
    Generations(Vec<GenerationRow>),
    /// Slots.
    Slots(Vec<SlotRow>),
    /// The number of a slot.
    Slot(u32),
    /// A backup of keyrings, in hexadecimal digits.
    Backup(String),
    /// Anchors.
    Anchors(Vec<Anchor>),
    /// Anchors beside the present.
    AnchorRows(Vec<AnchorRow>),
    /// An inspection.
    Inspection(Box<Inspection>),
    /// Who may do what.
    Permissions(Vec<PermissionRow>),
    /// Zones.
    Zones(Vec<ZoneRow>),
    /// Exports.
    Exports(Vec<ExportRow>),
    /// Mappings.
    Mappings(Vec<MappingRow>),
    /// The daemon.
    Daemon(DaemonReport),
}
