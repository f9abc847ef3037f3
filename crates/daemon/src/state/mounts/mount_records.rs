//! Records of the kernel's mounts that are of this state directory, for the start after a crash.
//!
//! Two daemons of one user can have pools of the same name, so the name of a mount does not say whose it is. Each mount has
//! a file, named by the number of its device, with the guids of its pool and dataset. No other mount has that number as
//! long as it exists, with or without its server.

use std::fs;
use std::path::{Path, PathBuf};

use fuse::ListedMount;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::host::identity::boot_id;

/// The directory of the records, in the state directory.
const DIR: &str = "mounts";
/// A record is not larger.
const LEN_MAX: u64 = 64 << 10;

/// A mounted dataset and its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedMount {
    /// The guid of the pool.
    pub(crate) pool: u64,
    /// The guid of the dataset or snapshot.
    pub(crate) dataset: u64,
    pub(crate) dir: PathBuf,
    /// The boot of the machine: numbers of devices begin anew with it.
    boot: String,
}

/// The records of a state directory.
pub(crate) struct MountRecords {
    dir: PathBuf,
    boot: String,
    /// The mounts of a killed daemon, until they are mounted again.
    dead: Mutex<Vec<(RecordedMount, ListedMount)>>,
}

/// The record of a mount. It is removed when this is dropped, but not if the daemon is killed.
pub(crate) struct MountRecord(PathBuf);

impl Drop for MountRecord {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl MountRecords {
    pub(crate) fn new(state_dir: &Path) -> MountRecords {
        MountRecords {
            dir: state_dir.join(DIR),
            boot: boot_id(),
            dead: Mutex::default(),
        }
    }

    /// Records a mount by the number of its device.
    pub(crate) fn add(&self, number: u32, (pool, dataset): (u64, u64), dir: &Path) -> MountRecord {
        let mounted = RecordedMount {
            pool,
            dataset,
            dir: dir.to_owned(),
            boot: self.boot.clone(),
        };
        let file = self.file(number);
        let written = serde_json::to_vec(&mounted).map_err(Into::into);
        let written = written.and_then(|text| {
            fs::create_dir_all(&self.dir)?;
            fs::write(&file, text)
        });
        if let Err(error) = written {
            let dir = dir.display();
            tracing::warn!(%error, %dir, "after a crash this mount will not be mounted again");
        }
        MountRecord(file)
    }

    /// Returns the record of a mount without a server, if it is of this state directory. Copies of the mount at other
    /// directories have the same number.
    pub(crate) fn find(&self, listed: &ListedMount) -> Option<RecordedMount> {
        let file = self.file(listed.device);
        let len = fs::symlink_metadata(&file)
            .ok()
            .filter(fs::Metadata::is_file)?
            .len();
        let text = fs::read(&file).ok().filter(|_| len <= LEN_MAX)?;
        let mounted: RecordedMount = serde_json::from_slice(&text).ok()?;
        (mounted.boot == self.boot).then_some(mounted)
    }

    /// Removes the records of a killed daemon, and keeps its mounts in memory until [`MountRecords::take_dead`].
    pub(crate) fn begin(&self, dead: Vec<(RecordedMount, ListedMount)>) {
        *self.dead.lock() = dead;
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Returns the mounts of a killed daemon, once.
    pub(crate) fn take_dead(&self) -> Vec<(RecordedMount, ListedMount)> {
        std::mem::take(&mut *self.dead.lock())
    }

    fn file(&self, number: u32) -> PathBuf {
        self.dir.join(number.to_string())
    }
}
