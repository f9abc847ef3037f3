//! Answers about datasets, their keys and their users, and about the daemon.

use serde::{Deserialize, Serialize};

use crate::api::zone_profile::ZoneProfile;

/// A dataset or snapshot with properties, in the order in which they were asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DatasetRow {
    /// The whole name of the dataset.
    pub name: String,
    /// `filesystem` or `snapshot`.
    pub kind: String,
    /// The properties of the dataset.
    pub props: Vec<PropertyRow>,
}

/// A property.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PropertyRow {
    /// The name of the property.
    pub property: String,
    /// The value of the property.
    pub value: PropertyValue,
    /// The source of the value.
    pub source: ValueSource,
}

/// A value, before it is made readable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PropertyValue {
    /// A property that does not apply.
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

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueSource {
    /// A value that is counted or fixed.
    None,
    /// A value that was not set.
    Default,
    /// A value that was set on this dataset.
    Local,
    /// A value that was set on a dataset above.
    Inherited(String),
    /// A value that was given to the command that mounted the dataset.
    Temporary,
    /// A value that came with a stream or a pool, and is not used before it is accepted.
    Proposed,
}

/// A mounted dataset or snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountRow {
    /// The dataset or snapshot.
    pub name: String,
    /// The directory of the mount.
    pub dir: String,
    /// True if it refuses changes.
    pub read_only: bool,
    /// The minor number of its device, which no other mount has at the same time. The major number is 0.
    pub device: u32,
}

/// A dataset that is a home.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HomeRow {
    /// The name of the dataset.
    pub name: String,
    /// The guid of the dataset.
    pub dataset: u64,
    /// True if it is mounted as home.
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
    /// The source of the key.
    pub keysource: String,
}

/// The wrong keys of a user within an hour from which on there is an alert.
pub const WRONG_KEYS_ALARM: u64 = 10;

/// The wrong keys that a user tried on a dataset or container within the last hour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WrongKeyRow {
    /// The dataset, or the device of the container; `several things` for many wrong keys of all together.
    pub name: String,
    /// The user.
    pub user: String,
    /// The number of wrong keys, at most 100.
    pub count: u64,
    /// The time of the last one, in seconds since 1970.
    pub last: u64,
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

/// The differences between two states of a dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiffReport {
    /// Files and directories, by path; absent if the key is not loaded.
    pub files: Option<Vec<DiffRow>>,
    /// Records of metadata that only the earlier state has, and those that only the later one has.
    pub metadata: [u64; 2],
    /// Records of contents that only the earlier state has, and those that only the later one has.
    pub contents: [u64; 2],
}

/// The change of a file or directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiffRow {
    /// `+`, `-`, `M` or `R`.
    pub change: String,
    /// The type of the file, as a letter of `ls -F`, or `F` for a file.
    pub kind: String,
    /// The path below the mountpoint, or else from the root of the dataset on. Bytes that are no printable ASCII are
    /// octal.
    pub path: String,
    /// The new path, if the file was renamed.
    pub new_path: Option<String>,
    /// The time of the last change: seconds since 1970.
    pub time: i64,
    /// The time of the last change: nanoseconds besides the seconds.
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
    /// The end of the hold, by the time of the pool; `None` if it has none.
    pub until: Option<u64>,
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

/// True if something is a user's or a group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerKind {
    /// A user's.
    User,
    /// A group's.
    Group,
}

/// The space of a user or group in a dataset, and its quotas.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccountRow {
    /// The kind of the account.
    pub kind: OwnerKind,
    /// The uid or gid.
    pub id: u32,
    /// The name of the account, if this machine has one.
    pub name: Option<String>,
    /// Bytes of contents that are not holes, before compression.
    pub used: u64,
    /// The quota in bytes.
    pub quota: Option<u64>,
    /// Files, directories and the like.
    pub objects_used: u64,
    /// The quota in files and directories.
    pub object_quota: Option<u64>,
}

/// A way to the key of a dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlotRow {
    /// The dataset that has the slot.
    pub key_root: String,
    /// The number of the slot.
    pub slot: u32,
    /// `passphrase`, `key` or `unknown`.
    pub kind: String,
    /// Slots with a higher one are tried first.
    pub priority: u8,
    /// Seconds since 1970.
    pub created: u64,
    /// The cost of a guess, of a passphrase.
    pub cost: Option<String>,
}

/// The daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonReport {
    /// The version of the program.
    pub version: String,
    /// The process of the daemon.
    pub pid: u32,
    /// The socket of the daemon.
    pub socket: String,
    /// The processor features that its ciphers use.
    pub hardware: String,
    /// Imported pools.
    pub pools: Vec<String>,
}

/// The user that the daemon takes the caller for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallerReport {
    /// The user, by name or else by number.
    pub user: String,
    /// The number of the user.
    pub uid: u32,
    /// True if this is root or the daemon's own user, who may do everything.
    pub admin: bool,
    /// The zone that the caller came through.
    pub zone: Option<String>,
    /// The id of the token that the caller showed.
    pub token: Option<String>,
    /// The end of the token, in seconds since 1970.
    pub expires: Option<u64>,
    /// True if the token has places and memory of its own, so that it takes none from other tokens.
    #[serde(default)]
    pub apart: bool,
}

/// A token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenRow {
    /// The id of the token, which is no secret.
    pub id: String,
    /// The user whose rights it gives.
    pub user: String,
    /// The purpose of the token.
    pub label: String,
    /// The zone that it leads into.
    pub zone: Option<String>,
    /// The limits of the token, besides the rights of the user.
    #[serde(default)]
    pub scope: TokenScope,
    /// The time when the token was made, in seconds since 1970.
    pub created: u64,
    /// The end of the token, in seconds since 1970.
    pub expires: Option<u64>,
    /// The time when the token was last shown since the daemon started, in seconds since 1970.
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
    /// The commands that are accepted, by the names of the HTTP API; all if empty.
    pub commands: Vec<String>,
    /// Only sealed streams are received, into the dataset and below it. Nothing else is changed.
    pub receive_only: bool,
}

/// A token that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewToken {
    /// The id of the token, which is no secret.
    pub id: String,
    /// The token that the caller has to show. The daemon keeps only a hash of it.
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
    /// The datasets and snapshots that are destroyed as soon as nothing keeps them.
    pub later: Vec<String>,
}

/// The result of destroying datasets with their keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ShredReport {
    /// The datasets and snapshots that went, or would go.
    pub destroyed: Vec<String>,
    /// The number of keyrings that were wrapped by a random key before they were overwritten.
    pub rewrapped: usize,
    /// Datasets whose keys were not loaded, so that their keyrings were overwritten as they were.
    pub not_rewrapped: Vec<String>,
    /// The number of key blocks that were overwritten, and read as zeros in every copy on every device.
    pub key_blocks: usize,
    /// The number of devices of the pool.
    pub devices: usize,
    /// The data that stays readable with the keys of other datasets.
    pub survivors: Vec<Survivor>,
}

/// The data of a dataset that stays readable after its keys were destroyed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survivor {
    /// The dataset that goes.
    pub dataset: String,
    /// The one that has some of its data keys.
    pub kept_by: String,
    /// The generations of the keys.
    pub generations: Vec<u32>,
    /// The number of records of the dataset that are sealed with them.
    pub records: u64,
    /// Their bytes on disk.
    pub bytes: u64,
}

/// The permissions on a dataset, or below it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PermissionRow {
    /// The dataset that says so.
    pub dataset: String,
    /// `local` (on the dataset itself), `descendent` (below it), `local+descendent`, `create` (on what is made
    /// below) or `set`.
    pub scope: String,
    /// The kind of the name.
    pub kind: crate::api::WhoKind,
    /// The user or group that has the permissions; empty for everyone.
    pub name: String,
    /// The permissions.
    pub permissions: Vec<String>,
}

/// A zone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ZoneRow {
    /// The name of the zone.
    pub name: String,
    /// The dataset that is its root, as it is called now; absent if its pool is not imported.
    pub dataset: Option<String>,
    /// The name of the root inside the zone.
    pub alias: String,
    /// The profile, which says which datasets the tenant cannot change.
    pub profile: ZoneProfile,
    /// The user besides root that may use the zone, or after a colon a group.
    pub owner: Option<String>,
    /// The socket of the zone.
    pub socket: String,
}
