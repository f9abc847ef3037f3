//! Finds the process that still has a mount which has left this mount namespace.
//!
//! A mount namespace that was made while the file system was mounted has a copy of the mount. The kernel keeps the
//! file system as long as that copy exists.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::mount::mountinfo;

/// A mount of the file system that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountHolder {
    /// In the mount namespace of a process.
    Process {
        /// The number of the process.
        process: u32,
        /// The name of its program. The whole command line is in memory of the process, whose owner can keep a reader
        /// of it waiting.
        name: String,
    },
    /// In this mount namespace, at a directory.
    Here(PathBuf),
}

impl fmt::Display for MountHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountHolder::Process { process, name } => write!(
                f,
                "still mounted in the mount namespace of process {process} ({name})"
            ),
            MountHolder::Here(path) => write!(f, "still mounted at {}", path.display()),
        }
    }
}

/// The first mount found of the FUSE connection with this number. No process is waited for.
pub(crate) fn holder(connection: u32) -> Option<MountHolder> {
    if let Some((_, path)) = mountinfo::all_listed(connection).pop() {
        return Some(MountHolder::Here(path));
    }
    let device = format!("0:{connection}");
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let mut seen = BTreeSet::from([namespace(Path::new("/proc/self"))]);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|process| {
            let number = process.file_name().to_str()?.parse().ok()?;
            Some((number, process.path()))
        })
        .filter(|(_, process)| seen.insert(namespace(process)) && has_mounted(process, &device))
        .map(|(process, path)| {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            MountHolder::Process {
                process,
                name: name.trim_end().to_owned(),
            }
        })
        .next()
}

/// The device is the third field of each line.
fn has_mounted(process: &Path, device: &str) -> bool {
    let mounts = fs::read(process.join("mountinfo")).unwrap_or_default();
    let mut lines = mounts.split(|byte| *byte == b'\n');
    lines.any(|line| line.split(|byte| *byte == b' ').nth(2) == Some(device.as_bytes()))
}
