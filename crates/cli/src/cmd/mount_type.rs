//! The type of the file system that a file is in.

use std::io;

use rustix::fs::{major, minor};

/// The list of mounts of this process.
pub(super) const LIST: &str = "/proc/self/mountinfo";
/// The type of a mounted dataset in it.
pub(super) const DATASET: &str = "fuse.strongroom";
/// The type of a mounted stacked directory.
pub(super) const STACKED: &str = "fuse.strongroom-stack";

/// The type of the file system of a device, as the metadata of a file names it.
pub(super) fn of_device(device: u64) -> io::Result<Option<String>> {
    let mounts = std::fs::read(LIST)?;
    let mounts = String::from_utf8_lossy(&mounts);
    Ok(find(&mounts, device).map(str::to_owned))
}

fn find(mounts: &str, device: u64) -> Option<&str> {
    let device = format!("{}:{}", major(device), minor(device));
    let mut lines = mounts.lines();
    let line = lines.find(|line| line.split(' ').nth(2) == Some(&device))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datasets_are_told_from_other_mounts() {
        let mounts = "\
29 1 0:42 / /tank rw,relatime shared:1 - fuse.strongroom tank rw
30 1 0:43 / /other rw - fuse.gocryptfs - rw
";
        let of = |minor| find(mounts, rustix::fs::makedev(0, minor));
        assert_eq!(of(42), Some(DATASET));
        assert_eq!(of(43), Some("fuse.gocryptfs"));
        assert_eq!(of(44), None);
    }
}
