//! Which process still has a mount that is gone from here.
//!
//! A mount namespace that was made while the file system was mounted has a copy of the mount, and as
//! long as that is there the kernel does not let go of the file system.

use std::fmt;
use std::fs;
use std::path::Path;

/// A process in whose mount namespace the file system is still mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// What it is called.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.process, self.name)
    }
}

/// The first process found that has the FUSE connection with this number mounted.
pub(crate) fn holder(connection: u32) -> Option<Holder> {
    let device = format!("0:{connection}");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter(|process| has_mounted(&process.path(), &device))
        .find_map(|process| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            Some(Holder {
                process: process.file_name().to_str()?.parse().ok()?,
                name: name.trim_end().to_owned(),
            })
        })
}

/// The device is the third field of each line.
fn has_mounted(process: &Path, device: &str) -> bool {
    let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(2) == Some(device))
}
