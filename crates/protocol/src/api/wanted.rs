//! What commands are told besides names.

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
    /// Its size, in bytes.
    pub size: u64,
    /// Reserve no space for it.
    #[serde(default)]
    pub sparse: bool,
}

/// Devices that form a pool, or more of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub struct DeviceGroup {
    /// Which.
    pub devices: Vec<PathBuf>,
    /// How many of them may be lost in a group with parity; 0: all hold the same.
    pub parity: usize,
}

/// What an import does with the checkpoint of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointUse {
    /// Nothing.
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
        /// Which.
        devices: Box<PoolDevices>,
        /// Overwrite what they hold, and accept different redundancy.
        #[serde(default)]
        force: bool,
        /// Only say whether they could be added.
        #[serde(default)]
        dry_run: bool,
    },
    /// One more member beside another.
    Attach {
        /// Beside which.
        device: String,
        /// The new one.
        new: PathBuf,
        /// Overwrite what it holds.
        #[serde(default)]
        force: bool,
    },
    /// One member less.
    Detach {
        /// Which.
        device: String,
        /// Also if the device in its place is incomplete.
        #[serde(default)]
        force: bool,
    },
    /// One device in the place of another.
    Replace {
        /// The old one.
        device: String,
        /// The new one; if absent, what is now where the old one was.
        new: Option<PathBuf>,
        /// Overwrite what it holds.
        #[serde(default)]
        force: bool,
    },
    /// One spare less, or one group of devices.
    Remove {
        /// Which.
        device: String,
        /// Not to return before a group that holds data is gone.
        #[serde(default)]
        wait: bool,
    },
    /// Leave the group in use that is being removed.
    StopRemove,
    /// Leave a member alone.
    Offline {
        /// Which.
        device: String,
        /// Until the next import only.
        #[serde(default)]
        temporary: bool,
    },
    /// Take a member back.
    Online {
        /// Which.
        device: String,
        /// Use all of it, if it became larger.
        #[serde(default)]
        expand: bool,
    },
    /// Forget failures, and try again what failed.
    Clear {
        /// Of which device; of all if absent.
        device: Option<String>,
    },
    /// Look again for devices that are missing.
    Reopen,
}

/// What a mount allows; what the properties say where that is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Programs can be run.
    pub exec: Option<bool>,
    /// Set-user-ID and set-group-ID bits have effect.
    pub setuid: Option<bool>,
    /// Device nodes can be opened.
    pub devices: Option<bool>,
    /// When reading changes access times.
    #[serde(default)]
    pub access_times: Option<AccessTimes>,
    /// Access times of directories may change.
    #[serde(default)]
    pub directory_times: Option<bool>,
}

impl Allowed {
    /// These values, and those of `other` where these are absent.
    pub fn or(self, other: Allowed) -> Allowed {
        Allowed {
            exec: self.exec.or(other.exec),
            setuid: self.setuid.or(other.setuid),
            devices: self.devices.or(other.devices),
            access_times: self.access_times.or(other.access_times),
            directory_times: self.directory_times.or(other.directory_times),
        }
    }
}

/// When reading a file changes its access time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessTimes {
    /// Never.
    Never,
    /// Where it is older than the last change, or a day.
    Relative,
    /// Each time that a file is opened and read.
    Always,
}

/// Work on the free space of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sweep {
    /// Tell the devices that it is free.
    Trim,
    /// Write a pattern to it.
    Initialize,
}

/// What to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SendWhat {
    /// A snapshot.
    Snapshot {
        /// Its name.
        name: String,
        /// What is new since this one, an earlier snapshot or a bookmark; `@name` and `#name` are of the same dataset.
        from: Option<String>,
        /// The snapshots between them too.
        #[serde(default)]
        all: bool,
        /// The datasets below too, each with all its snapshots up to this one.
        #[serde(default)]
        replicate: bool,
    },
    /// What a receive that was interrupted lacks.
    Rest {
        /// Its token.
        token: String,
    },
}

/// Which dataset a stream is received into.
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

/// What to do about the data keys of a dataset.
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

/// Whom something is allowed to.
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

/// What to inspect.
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
