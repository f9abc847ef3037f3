//! The commands for keys.

use super::history::LEFT_OUT;
use crate::api::arguments::{Pbkdf, Rotation, each_once};

requests! {
    /// Load keys.
    #[derive(Default)]
    KeyLoad: Changes, "key load" [
        "-a" names.is_empty(), "-n" dry_run, "-r" recursive, "-L ..." location.is_some(), "-o keysource=" keysource,
        names,
    ] {
        /// Datasets; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// Below them too.
        #[serde(default)]
        recursive: bool,
        /// The location of the key, in place of the property's.
        location: Option<String>,
        /// Format and place of the key, `FORMAT,LOCATION`, instead of where the property says.
        keysource: Option<String>,
        /// Only try whether the key is the right one.
        #[serde(default)]
        dry_run: bool,
    }

    /// Unload keys.
    KeyUnload: Changes, "key unload" ["-a" names.is_empty(), "-f" force, "-r" recursive, names] {
        /// Datasets; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// Below them too.
        #[serde(default)]
        recursive: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
    }

    /// Replace the key of a dataset.
    #[derive(Default)]
    KeyChange: Changes, "key change" [
        "-i" inherit, "--only" only, "--slot" slot, "--pbkdf" pbkdf.map(Pbkdf::name), "-o keysource=" keysource, name,
    ] {
        /// The dataset.
        name: String,
        /// The source of the new key; the present one if absent.
        keysource: Option<String>,
        /// The slot that alone gets the new key.
        slot: Option<u32>,
        /// In the place of all slots.
        #[serde(default)]
        only: bool,
        /// Use the key of the dataset above instead.
        #[serde(default)]
        inherit: bool,
        /// The hash of the passphrase; by the mode of the daemon if absent.
        pbkdf: Option<Pbkdf>,
    }

    /// Give a dataset new data keys.
    KeyRotate: Changes, "key -K" [
        "--reencrypt" how.eq(&Rotation::Reencrypt), "--pause" how.eq(&Rotation::Pause),
        "--resume" how.eq(&Rotation::Resume), name,
    ] {
        /// The dataset.
        name: String,
        /// The kind of rotation.
        how: Rotation,
    }

    /// List the generations of data keys, and the datasets that need them.
    KeyGenerations: Reads, "key generations" [name] {
        /// The dataset.
        name: String,
    }

    /// Add a slot to a dataset's key.
    KeyAdd: Changes, "key add" [
        "-p" unusual_priority(), "--pbkdf" pbkdf.map(Pbkdf::name), "-o keysource=" keysource, name,
    ] {
        /// The dataset.
        name: String,
        /// The source of the new key.
        keysource: Option<String>,
        /// Slots with a higher one are tried first.
        priority: u8,
        /// The hash of the passphrase; by the mode of the daemon if absent.
        pbkdf: Option<Pbkdf>,
    }

    /// Remove a slot.
    KeyRemove: Changes, "key remove" ["-f" force, "-o keysource=" keysource, name, slot] {
        /// The dataset.
        name: String,
        /// The number of the slot.
        slot: u32,
        /// The source of the key afterwards.
        keysource: Option<String>,
        /// Even if that opens nothing.
        #[serde(default)]
        force: bool,
    }

    /// List the key slots.
    KeySlots: Reads, "key slots" [name] {
        /// The dataset.
        name: String,
    }

    // Wrapped keys outlive a later change of the passphrase.
    /// Copy keyrings.
    KeyBackup: Changes, "key backup" [name] {
        /// The dataset; with it those that have their key from it.
        name: String,
    }

    /// Restore keyrings from a backup.
    KeyRestore: Changes, "key restore" ["-o keysource=" keysource, name, hidden_backup()] {
        /// The dataset.
        name: String,
        /// The backup, in hexadecimal digits.
        backup: String,
        /// The source of the key that opens the backup; that of the backup if absent.
        keysource: Option<String>,
    }

    /// Accept where the keys of datasets come from, as their properties say now.
    KeyAccept: Changes, "key accept" ["-r" recursive, names] {
        /// Datasets with keys of their own.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// With those below them.
        #[serde(default)]
        recursive: bool,
    }

    /// True if keys are loaded.
    KeyStatus: Reads, "key status" [names] {
        /// Datasets; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
    }
}

/// The priority of a key slot if none is given.
const USUAL_PRIORITY: u8 = 128;

impl KeyAdd {
    fn unusual_priority(&self) -> Option<u8> {
        Some(self.priority).filter(|priority| *priority != USUAL_PRIORITY)
    }
}

impl KeyRestore {
    fn hidden_backup(&self) -> &'static str {
        LEFT_OUT
    }
}
