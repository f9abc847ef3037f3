//! The arguments of commands besides names.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The largest number of names in one list of a command.
pub const NAMES_MAX: usize = 10_000;

/// Reads a list of names, and leaves out repeated ones. A request of many equal names makes no more work than one.
pub(super) fn each_once<'de, D: Deserializer<'de>>(names: D) -> Result<Vec<String>, D::Error> {
    let mut names = Vec::<String>::deserialize(names)?;
    if names.len() > NAMES_MAX {
        let why = format!("a list has more than {NAMES_MAX} names; use several commands");
        return Err(D::Error::custom(why));
    }
    let mut seen = HashSet::with_capacity(names.len());
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// Properties to set, as `name=value`.
pub type Props = Vec<(String, String)>;

/// A step of a login with a dataset as home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HomeStep {
    /// Find the dataset.
    Find,
    /// Check a passphrase against its key slots. Nothing changes.
    Check,
    /// Check the passphrase, load the key, mount.
    Open,
    /// Unmount, unload the key.
    Close,
    /// Check the old passphrase, and replace it by a new one.
    Change,
}

/// The hash of the passphrase of a key slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pbkdf {
    /// Argon2id.
    Argon2id,
    /// PBKDF2 with HMAC, which FIPS mode accepts.
    Pbkdf2,
}

impl Pbkdf {
    /// The word for it on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Pbkdf::Argon2id => "argon2id",
            Pbkdf::Pbkdf2 => "pbkdf2",
        }
    }
}

/// A volume to make.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// The size of the device, in bytes.
    pub size: u64,
    /// Reserve no space for it.
    #[serde(default)]
    pub sparse: bool,
}

/// Devices that form a pool, or more of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPoolDevices {
    /// The groups.
    pub groups: Vec<DeviceGroup>,
    /// The groups for intent logs only.
    pub logs: Vec<DeviceGroup>,
    /// The devices of the second-level cache.
    #[serde(default)]
    pub caches: Vec<PathBuf>,
    /// The spares.
    pub spares: Vec<PathBuf>,
}

/// Devices that hold data together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceGroup {
    /// The devices of the group.
    pub devices: Vec<PathBuf>,
    /// The number of devices that a group with parity can lose. With 0, all devices hold the same data.
    pub parity: usize,
}

/// The use that an import makes of the checkpoint of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointUse {
    /// Keep the checkpoint.
    #[default]
    Keep,
    /// Goes back to it.
    Rewind,
    /// Discards it without reading it.
    Discard,
}

/// A change to the devices of a pool. Devices of the pool are named by path or guid.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DeviceChange {
    /// More groups or spares.
    Add {
        /// The new devices.
        devices: Box<NewPoolDevices>,
        /// Overwrite what they hold, and accept different redundancy.
        #[serde(default)]
        force: bool,
        /// Only say whether they could be added.
        #[serde(default)]
        dry_run: bool,
    },
    /// Add a member beside another one.
    Attach {
        /// Beside which.
        device: String,
        /// The new one.
        new: PathBuf,
        /// Overwrite what it holds.
        #[serde(default)]
        force: bool,
        /// The age that an image in an object store may have, in seconds.
        #[serde(default)]
        follow: Option<u32>,
    },
    /// Remove a member.
    Detach {
        /// The member.
        device: String,
        /// Also if the device in its place is incomplete.
        #[serde(default)]
        force: bool,
    },
    /// Replace a device by another one.
    Replace {
        /// The old one.
        device: String,
        /// The new one; if absent, what is now where the old one was.
        new: Option<PathBuf>,
        /// Overwrite what it holds.
        #[serde(default)]
        force: bool,
    },
    /// Remove a spare, or a group of devices.
    Remove {
        /// The spare, or the group.
        device: String,
        /// True if the command returns only when a group with data is removed.
        #[serde(default)]
        wait: bool,
    },
    /// Leave the group in use that is being removed.
    StopRemove,
    /// Leave a member alone.
    Offline {
        /// The device.
        device: String,
        /// Until the next import only.
        #[serde(default)]
        temporary: bool,
    },
    /// Take a member back.
    Online {
        /// The device.
        device: String,
        /// Use all of it, if it became larger.
        #[serde(default)]
        expand: bool,
    },
    /// Forget failures, and try again what failed.
    Clear {
        /// The device; all if absent.
        device: Option<String>,
    },
    /// Look again for devices that are missing.
    Reopen,
}

/// The permissions of a mount; the properties decide where one is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountPermissions {
    /// Programs can be run.
    pub exec: Option<bool>,
    /// Set-user-ID and set-group-ID bits have effect.
    pub setuid: Option<bool>,
    /// Device nodes can be opened.
    pub devices: Option<bool>,
    /// The rule for access times.
    #[serde(default)]
    pub access_times: Option<AccessTimes>,
    /// Access times of directories may change.
    #[serde(default)]
    pub directory_times: Option<bool>,
}

impl MountPermissions {
    /// Returns these values, and those of `other` where these are absent.
    pub fn or(self, other: MountPermissions) -> MountPermissions {
        MountPermissions {
            exec: self.exec.or(other.exec),
            setuid: self.setuid.or(other.setuid),
            devices: self.devices.or(other.devices),
            access_times: self.access_times.or(other.access_times),
            directory_times: self.directory_times.or(other.directory_times),
        }
    }
}

/// The rule by which reading a file changes its access time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessTimes {
    /// Never.
    Never,
    /// Change a time that is older than the last change, or than a day.
    Relative,
    /// Each time that a file is opened and read.
    Always,
}

/// Work on the free space of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceWork {
    /// Tell the devices that it is free.
    Trim,
    /// Write a pattern to it.
    Initialize,
}

/// The states to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SendScope {
    /// A snapshot.
    Snapshot {
        /// The name of the snapshot.
        name: String,
        /// The earlier snapshot or bookmark from which on changes are sent; `@name` and `#name` are of the same
        /// dataset.
        from: Option<String>,
        /// The snapshots between them too.
        #[serde(default)]
        all: bool,
        /// The datasets below too, each with all its snapshots up to this one.
        #[serde(default)]
        replicate: bool,
    },
    /// The rest of a receive that was interrupted.
    Rest {
        /// The token of the receive.
        token: String,
        /// The dataset whose snapshot is sent; any if absent.
        #[serde(default)]
        of: Option<String>,
    },
}

/// A change of a job that copies a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobChange {
    /// Let the job no longer run by itself, and stop it if it runs.
    Pause,
    /// Let the job run by itself again, on this machine.
    Resume,
    /// Remove the job. The copy stays.
    Remove,
}

impl JobChange {
    /// The word of the command line.
    pub fn verb(self) -> &'static str {
        match self {
            JobChange::Pause => "pause",
            JobChange::Resume => "resume",
            JobChange::Remove => "remove",
        }
    }
}

/// The rule by which the name of a received dataset is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiveName {
    /// The target.
    Exact,
    /// The one below the target whose name the dataset has at the sender, without the pool.
    Path,
    /// The one below the target with the last part of that name.
    Last,
}

/// The change of the data keys of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// New ones for what is written from now on.
    New,
    /// New ones, and re-encrypt the stored records with them.
    Reencrypt,
    /// Stop the re-encryption.
    Pause,
    /// Go on.
    Resume,
}

/// The kind of a name that permissions are given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhoKind {
    /// A user.
    User,
    /// The members of a group.
    Group,
    /// All users of the machine.
    Everyone,
    /// The user who creates a dataset below, on that dataset.
    Creator,
    /// No user: a named set of permissions. Its name begins with `@`.
    Set,
}

/// The object of an inspection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InspectTarget {
    /// An imported pool.
    Pool(String),
    /// The devices of a pool that is not imported.
    Devices(Vec<PathBuf>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Command;

    fn parsed(names: &[&str]) -> Result<Vec<String>, serde_json::Error> {
        let holds = serde_json::json!({"holds": {"names": names, "recursive": false}});
        serde_json::from_value(holds).map(|command| match command {
            Command::Holds(holds) => holds.names,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn equal_names_are_one() {
        assert_eq!(parsed(&["b", "a", "b", "b", "c"]).unwrap(), ["b", "a", "c"]);
        let many = vec!["a"; NAMES_MAX];
        assert_eq!(parsed(&many).unwrap(), ["a"]);
        let error = parsed(&[many, vec!["b"]].concat()).unwrap_err();
        assert!(error.to_string().contains("more than 10000 names"));
    }
}
