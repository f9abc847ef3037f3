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
///
/// The kernel gives the number of a connection that has ended to the next file system, which may be one of another process.
/// A caller that does not hold the connection says the source of its mount: a mount of another source is not found.
pub(crate) fn holder(connection: u32, source: Option<&str>) -> Option<MountHolder> {
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
        .filter(|(_, process)| {
            seen.insert(namespace(process)) && has_mounted(process, &device, source)
        })
        .map(|(process, path)| {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            MountHolder::Process {
                process,
                name: name.trim_end().to_owned(),
            }
        })
        .next()
}

fn has_mounted(process: &Path, device: &str, source: Option<&str>) -> bool {
    let mounts = fs::read(process.join("mountinfo")).unwrap_or_default();
    let mut lines = mounts.split(|byte| *byte == b'\n');
    lines.any(|line| is_mount_of(line, device, source))
}

/// Returns whether a line of the kernel's list is a mount of a device. The device is the third field, and the source the
/// second one after a dash.
fn is_mount_of(line: &[u8], device: &str, source: Option<&str>) -> bool {
    let mut fields = line.split(|byte| *byte == b' ');
    if fields.nth(2) != Some(device.as_bytes()) {
        return false;
    }
    let mut words = fields.skip_while(|field| *field != b"-");
    let found = words.nth(2).map(mountinfo::unescaped);
    source.is_none_or(|source| found.is_some_and(|found| found == Path::new(source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_another_mount_got_is_not_held() {
        let line = b"47 27 0:44 / /a\\040b ro shared:1 - fuse.strongroom-stack /lower\\040dir rw,user_id=0";
        assert!(is_mount_of(line, "0:44", None));
        assert!(is_mount_of(line, "0:44", Some("/lower dir")));
        assert!(!is_mount_of(line, "0:44", Some("/other")));
        assert!(!is_mount_of(line, "0:45", None));
        assert!(!is_mount_of(b"", "0:44", None));
    }
}
