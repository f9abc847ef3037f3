//! The commands for mounts.

use std::path::PathBuf;

use crate::api::arguments::{HomeStep, MountPermissions};

requests! {
    /// Mount a dataset or snapshot, or all.
    Mount: Changes, "mount" ["-a" name.is_none(), "-l" load_keys, "--give-up-log" give_up_log, name, dir] {
        /// What; everything that mounts by itself if absent.
        name: Option<String>,
        /// The directory, in place of the property's.
        dir: Option<PathBuf>,
        /// Load the key first.
        #[serde(default)]
        load_keys: bool,
        /// Refuse changes.
        #[serde(default)]
        read_only: bool,
        /// Over a directory that is not empty.
        #[serde(default)]
        overlay: bool,
        /// Give up the entries of its log that are not of its present state. A volume is not mounted then, only its log
        /// is replayed.
        #[serde(default)]
        give_up_log: bool,
        /// The permissions of the mount, where they differ from the properties.
        #[serde(default)]
        allowed: MountPermissions,
    }

    /// Find, open or close the dataset that is a home, for a login.
    Home: Changes, "login" [verb(), "--uid" uid, "--dataset" dataset, dir] {
        /// The step to take.
        step: HomeStep,
        /// The home directory.
        dir: String,
        /// The user whose home it is.
        uid: u32,
        /// The dataset, by guid. Without one: each that may be the home, and that the passphrase opens.
        dataset: Option<u64>,
    }

    /// Change what a mount allows.
    Remount: Changes, "mount" ["-o" options(), name] {
        /// The dataset or snapshot that is mounted.
        name: String,
        /// Refuse changes, or allow them.
        read_only: Option<bool>,
        /// The permissions of the mount that change.
        allowed: MountPermissions,
    }

    /// Unmount a dataset by its name or its directory, or all.
    Unmount: Changes, "unmount" ["-a" target.is_none(), "-f" force, target] {
        /// What; everything if absent.
        target: Option<String>,
        /// Even if it is in use.
        #[serde(default)]
        force: bool,
    }
}

impl Home {
    fn verb(&self) -> &'static str {
        match self.step {
            HomeStep::Find => "find",
            HomeStep::Check => "auth",
            HomeStep::Open => "open",
            HomeStep::Close => "close",
            HomeStep::Change => "password",
        }
    }
}

impl Remount {
    fn options(&self) -> &'static str {
        match self.read_only {
            Some(true) => "remount,ro",
            Some(false) => "remount,rw",
            None => "remount",
        }
    }
}
