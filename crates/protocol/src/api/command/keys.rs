//! The commands for keys.

use serde::{Deserialize, Serialize};

use crate::api::arguments::{Pbkdf, Rotation, each_once};

/// Load keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyLoad {
    /// Datasets; all if none is named.
    #[serde(deserialize_with = "each_once")]
    pub names: Vec<String>,
    /// Below them too.
    #[serde(default)]
    pub recursive: bool,
    /// The location of the key, in place of the property's.
    pub location: Option<String>,
    /// Format and place of the key, `FORMAT,LOCATION`, instead of where the property says.
    pub keysource: Option<String>,
    /// Only try whether the key is the right one.
    #[serde(default)]
    pub dry_run: bool,
}

/// Unload keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyUnload {
    /// Datasets; all if none is named.
    #[serde(deserialize_with = "each_once")]
    pub names: Vec<String>,
    /// Below them too.
    #[serde(default)]
    pub recursive: bool,
    /// Unmount what is in use.
    #[serde(default)]
    pub force: bool,
}

/// Replace the key of a dataset.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    /// The dataset.
    pub name: String,
    /// The source of the new key; the present one if absent.
    pub keysource: Option<String>,
    /// The slot that alone gets the new key.
    pub slot: Option<u32>,
    /// In the place of all slots.
    #[serde(default)]
    pub only: bool,
    /// Use the key of the dataset above instead.
    #[serde(default)]
    pub inherit: bool,
    /// The hash of the passphrase; by the mode of the daemon if absent.
    pub pbkdf: Option<Pbkdf>,
}

/// Give a dataset new data keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRotate {
    /// The dataset.
    pub name: String,
    /// The kind of rotation.
    pub how: Rotation,
}

/// List the generations of data keys, and the datasets that need them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyGenerations {
    /// The dataset.
    pub name: String,
}

/// Add a slot to a dataset's key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAdd {
    /// The dataset.
    pub name: String,
    /// The source of the new key.
    pub keysource: Option<String>,
    /// Slots with a higher one are tried first.
    pub priority: u8,
    /// The hash of the passphrase; by the mode of the daemon if absent.
    pub pbkdf: Option<Pbkdf>,
}

/// Remove a slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRemove {
    /// The dataset.
    pub name: String,
    /// The number of the slot.
    pub slot: u32,
    /// The source of the key afterwards.
    pub keysource: Option<String>,
    /// Even if that opens nothing.
    #[serde(default)]
    pub force: bool,
}

/// List the key slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySlots {
    /// The dataset.
    pub name: String,
}

/// Copy keyrings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyBackup {
    /// The dataset; with it those that have their key from it.
    pub name: String,
}

/// Restore keyrings from a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRestore {
    /// The dataset.
    pub name: String,
    /// The backup, in hexadecimal digits.
    pub backup: String,
    /// The source of the key that opens the backup; that of the backup if absent.
    pub keysource: Option<String>,
}

/// Accept where the keys of datasets come from, as their properties say now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAccept {
    /// Datasets with keys of their own.
    #[serde(deserialize_with = "each_once")]
    pub names: Vec<String>,
    /// With those below them.
    #[serde(default)]
    pub recursive: bool,
}

/// True if keys are loaded.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyStatus {
    /// Datasets; all if none is named.
    #[serde(deserialize_with = "each_once")]
    pub names: Vec<String>,
}
