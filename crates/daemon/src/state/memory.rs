//! The files in the state directory that the next start of the daemon reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::Permissions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use protocol::api::FailureKind;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

/// The number of unreadable files with one name that are kept.
const ASIDE_MAX: u32 = 1000;

/// The state directory.
pub(crate) struct StateDir {
    dir: PathBuf,
    /// Files that could be neither read nor put aside. They are not written to.
    stuck: Mutex<BTreeSet<String>>,
    /// Files whose last write failed. What they hold may not be durable.
    unsure: Mutex<BTreeSet<String>>,
}

impl StateDir {
    pub(crate) fn new(dir: &Path) -> StateDir {
        StateDir {
            dir: dir.to_owned(),
            stuck: Mutex::default(),
            unsure: Mutex::default(),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Reads a file. An unreadable file is renamed, and the log reports it. `again` says how to make its contents
    /// again.
    pub(crate) fn recall<T: DeserializeOwned + Default>(&self, name: &str, again: &str) -> T {
        let file = self.file(name);
        let text = match std::fs::read(&file) {
            Ok(text) if text.is_empty() => return T::default(),
            Ok(text) => Ok(text),
            Err(error) if error.kind() == ErrorKind::NotFound => return T::default(),
            Err(error) => Err(error.to_string()),
        };
        let read = text.and_then(|text| serde_json::from_slice(&text).map_err(|e| e.to_string()));
        read.unwrap_or_else(|reason: String| {
            match put_aside(&file) {
                Ok(aside) => {
                    let aside = aside.display();
                    tracing::error!(reason, file = %file.display(), %aside, "a state file cannot be read; it is kept under another name. To restore its contents: {again}");
                }
                Err(error) => {
                    self.stuck.lock().insert(name.into());
                    tracing::error!(reason, %error, file = %file.display(), "a state file cannot be read or renamed. The daemon does not write to it. Move it away, and start the daemon again");
                }
            }
            T::default()
        })
    }

    /// Reads a file that must not be lost. If it cannot be read, it stays, and this fails. `None` if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match std::fs::read(self.file(name)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a file, if there is one, durably.
    ///
    /// # Errors
    /// The file still exists, or may exist after a power cut.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.file(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_dir(&self.dir),
        }
    }

    /// Writes a file for the next start, unless it has these contents already.
    pub(crate) fn remember(&self, name: &str, what: &impl Serialize) -> Result<()> {
        let file = self.file(name);
        let failed = |kind, reason: &dyn Display| {
            let message = format!("{} cannot be written: {reason}", file.display());
            Failure::new(kind, message)
        };
        if self.stuck.lock().contains(name) {
            return Err(failed(FailureKind::Other, &"what it holds cannot be read"));
        }
        let text = serde_json::to_string_pretty(what)
            .map_err(|error| failed(FailureKind::Other, &error))?;
        let mut unsure = self.unsure.lock();
        let is_known = !unsure.contains(name);
        if is_known && std::fs::read(&file).is_ok_and(|old| old == text.as_bytes()) {
            return Ok(());
        }
        let written = std::fs::create_dir_all(&self.dir).and_then(|()| write(&file, &text));
        match written {
            Ok(()) => drop(unsure.remove(name)),
            Err(_) => drop(unsure.insert(name.into())),
        }
        written.map_err(|error| failed(FailureKind::of_system(&error), &error))
    }
}

/// Renames a file to an unused name.
fn put_aside(file: &Path) -> io::Result<PathBuf> {
    for number in 0..ASIDE_MAX {
        let aside = match number {
            0 => file.with_extension("json.unreadable"),
            _ => file.with_extension(format!("json.unreadable.{number}")),
        };
        match renameat_with(CWD, file, CWD, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(aside),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Replaces a file for the next start atomically.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    // Only the daemon may read it, also if other users can enter the directory.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    // Or after a power cut the new name may be that of an empty file.
    file.sync_all()?;
    std::fs::rename(new, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Makes the names in a directory durable.
fn sync_dir(dir: &Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

/// Pools that were imported and not exported, for the next start.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(from = "StoredPools")]
pub(crate) struct RememberedPools {
    /// The pools by name.
    pub(crate) pools: BTreeMap<String, KnownPool>,
}

/// A pool that was imported.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KnownPool {
    /// Absent in files of older programs, which knew pools only by name.
    pub(crate) guid: Option<u64>,
    /// The new guid, while the pool gets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) becomes: Option<u64>,
    pub(crate) devices: Vec<KnownDevice>,
    /// True if the pool is imported read-only.
    pub(crate) read_only: bool,
    /// The directory below which all mountpoints are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) altroot: Option<PathBuf>,
    /// The seconds between refreshes of a reader, 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<u64>,
    /// The reason why it could not be imported when the daemon started.
    #[serde(skip)]
    pub(crate) reason: Option<String>,
}

/// A device of a pool that was imported.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KnownDevice {
    pub(crate) path: PathBuf,
    /// Absent in files of older programs.
    pub(crate) guid: Option<u64>,
}

/// The contents of the file, in the present form or in that of older programs.
#[derive(Deserialize)]
struct StoredPools {
    pools: BTreeMap<String, StoredPool>,
    #[serde(default)]
    read_only: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredPool {
    Known(KnownPool),
    Paths(Vec<PathBuf>),
}

impl From<StoredPools> for RememberedPools {
    fn from(stored: StoredPools) -> RememberedPools {
        let known = |(name, pool): (String, StoredPool)| {
            let pool = match pool {
                StoredPool::Known(pool) => pool,
                StoredPool::Paths(paths) => KnownPool {
                    guid: None,
                    becomes: None,
                    devices: paths
                        .into_iter()
                        .map(|path| KnownDevice { path, guid: None })
                        .collect(),
                    read_only: stored.read_only.contains(&name),
                    altroot: None,
                    refresh: None,
                    reason: None,
                },
            };
            (name, pool)
        };
        RememberedPools {
            pools: stored.pools.into_iter().map(known).collect(),
        }
    }
}

impl RememberedPools {
    pub(crate) fn insert(&mut self, name: String, pool: KnownPool) {
        self.pools.insert(name, pool);
    }

    /// Adds a device to a listed pool, unless the pool has it.
    pub(crate) fn insert_device(&mut self, pool: &str, device: &KnownDevice) {
        if let Some(pool) = self.pools.get_mut(pool)
            && !pool.devices.iter().any(|known| known.guid == device.guid)
        {
            pool.devices.push(device.clone());
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.pools.remove(name).is_some()
    }

    /// Returns whether a pool is listed. Older programs did not know its guid.
    pub(crate) fn waits_for(&self, name: &str, guid: u64) -> bool {
        let known = self.pools.get(name);
        known.is_some_and(|known| known.guid.is_none() || known.is_of(guid))
    }

    /// The paths of all devices.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let devices = self.pools.values().flat_map(|pool| &pool.devices);
        devices.map(|device| device.path.clone()).collect()
    }
}

impl KnownPool {
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.devices.iter().map(|d| d.path.clone()).collect()
    }

    /// Returns whether the pool has this guid, or is getting it.
    pub(crate) fn is_of(&self, guid: u64) -> bool {
        [self.guid, self.becomes].contains(&Some(guid))
    }

    pub(crate) fn has_device(&self, guid: u64) -> bool {
        self.devices.iter().any(|device| device.guid == Some(guid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_older_programs_wrote_is_read() {
        let old = r#"{"pools": {"tank": ["/a", "/b"], "safe": ["/c"]}, "read_only": ["safe"]}"#;
        let read: RememberedPools = serde_json::from_str(old).unwrap();
        assert_eq!(
            read.pools["tank"].paths(),
            [Path::new("/a"), Path::new("/b")]
        );
        assert!(read.pools["tank"].guid.is_none() && !read.pools["tank"].read_only);
        assert!(read.pools["safe"].read_only);
        let text = serde_json::to_string(&read).unwrap();
        let again: RememberedPools = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }

    #[test]
    fn nothing_that_cannot_be_read_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(dir.path());
        for (text, aside) in [
            ("{one", "x.json.unreadable"),
            ("{two", "x.json.unreadable.1"),
        ] {
            std::fs::write(state.file("x.json"), text).unwrap();
            let none: Vec<u64> = state.recall("x.json", "by hand");
            assert!(none.is_empty());
            state.remember("x.json", &vec![7]).unwrap();
            assert_eq!(std::fs::read_to_string(state.file(aside)).unwrap(), text);
        }
        assert_eq!(state.recall::<Vec<u64>>("x.json", "by hand"), [7]);
        let mode = std::fs::metadata(state.file("x.json"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
