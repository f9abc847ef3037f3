//! What is returned about datasets, their keys and their users, and about the daemon.

use serde::{Deserialize, Serialize};

use super::zone_profile::ZoneProfile;

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
    /// It was not set.
    Default,
    /// It was set here.
    Local,
    /// It was set on a dataset above.
    Inherited(String),
    /// It was given to the command that mounted it.
    Temporary,
    /// It came with a stream or a pool, and is not used before it is accepted.
    Proposed,
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
    /// The minor number of its device, which no other mount has at the same time. The major number is 0.
    pub device: u32,
}

/// A dataset that is a home.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HomeRow {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub dataset: u64,
    /// Whether it is mounted as home.
    pub is_open: bool,
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
    /// Records of contents that only the earlier state has, and those that only the later one has.
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
    /// When it changed last: seconds since 1970.
    pub time: i64,
    /// When it changed last: nanoseconds besides the seconds.
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

/// A stream that would be sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamRow {
    /// The snapshot.
    pub name: String,
    /// The one that it goes on from.
    pub from: Option<String>,
    /// Bytes of the stream.
    pub size: u64,
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

/// As whom the daemon knows the caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallerReport {
    /// The user, by name or else by number.
    pub user: String,
    /// The number of the user.
    pub uid: u32,
    /// Whether this is root or the daemon's own user, who may do everything.
    pub admin: bool,
    /// The zone that the caller came through.
    pub zone: Option<String>,
    /// The id of the token that the caller showed.
    pub token: Option<String>,
    /// When that ends, in seconds since 1970.
    pub expires: Option<u64>,
}

/// A token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenRow {
    /// Its id, which is no secret.
    pub id: String,
    /// The user whose rights it gives.
    pub user: String,
    /// What it is for.
    pub label: String,
    /// The zone that it leads into.
    pub zone: Option<String>,
    /// Its limits besides the rights of the user.
    #[serde(default)]
    pub scope: TokenScope,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it ends, in seconds since 1970.
    pub expires: Option<u64>,
    /// When it was shown last since the daemon started, in seconds since 1970.
    pub last_used: Option<u64>,
}

/// The limits of a token besides the rights of its user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenScope {
    /// Commands that change something are refused.
    pub read_only: bool,
    /// Commands reach this dataset, and those below it; all if absent. It stays the same when it is renamed.
    pub dataset: Option<String>,
    /// These commands are accepted, by the names of the HTTP API; all if empty.
    pub commands: Vec<String>,
}

/// A token that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewToken {
    /// Its id, which is no secret.
    pub id: String,
    /// What has to be shown. The daemon keeps a hash of it only.
    pub token: String,
}

/// The datasets and snapshots that a command would destroy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DoomedReport {
    /// Their names.
    pub destroyed: Vec<String>,
    /// The bytes that this would free.
    pub freed: u64,
}

/// Snapshots that were destroyed, or are to be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeferredReport {
    /// The names of those that are gone.
    pub destroyed: Vec<String>,
    /// Of those that go as soon as nothing keeps them.
    pub later: Vec<String>,
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
    /// Which datasets the tenant cannot change.
    pub profile: ZoneProfile,
    /// Who besides root may use it: a user, or after a colon a group.
    pub owner: Option<String>,
    /// Where it listens.
    pub socket: String,
}
