//! The type of the file system that a file is in.

use std::io;

use rustix::fs::{major, minor};

/// The list of mounts of this process.
pub const LIST: &str = "/proc/self/mountinfo";
/// The type of a mounted dataset in it.
pub const DATASET: &str = "fuse.strongroom";
/// The type of a mounted stacked directory.
pub const STACKED: &str = "fuse.strongroom-stack";

/// The type of the file system of a device, as the metadata of a file names it. A FUSE mount of another user has none:
/// its user chose the type.
pub fn of_device(device: u64) -> io::Result<Option<String>> {
    let mounts = std::fs::read(LIST)?;
    let mounts = String::from_utf8_lossy(&mounts);
    let trusted = [0, rustix::process::geteuid().as_raw()];
    Ok(find(&mounts, device, &trusted).map(str::to_owned))
}

fn find<'a>(mounts: &'a str, device: u64, trusted: &[u32]) -> Option<&'a str> {
    let device = format!("{}:{}", major(device), minor(device));
    let mut lines = mounts.lines();
    let line = lines.find(|line| line.split(' ').nth(2) == Some(&device))?;
    let mut fields = line.split_once(" - ")?.1.split(' ');
    let kind = fields.next()?;
    let mut options = fields.nth(1)?.split(',');
    match options.find_map(|option| option.strip_prefix("user_id=")) {
        Some(user) => trusted.contains(&user.parse().ok()?).then_some(kind),
        None => Some(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datasets_are_told_from_other_mounts() {
        let mounts = "\
29 1 0:42 / /tank rw,relatime shared:1 - fuse.strongroom tank rw,user_id=0,group_id=0
30 1 0:43 / /other rw - fuse.gocryptfs - rw,user_id=7,group_id=7
31 1 0:44 / /false rw - fuse.strongroom tank rw,user_id=8,group_id=7
32 1 8:1 / / rw - ext4 /dev/sda1 rw
";
        let of = |minor| find(mounts, rustix::fs::makedev(0, minor), &[0, 7]);
        assert_eq!(of(42), Some(DATASET));
        assert_eq!(of(43), Some("fuse.gocryptfs"));
        // Of another user.
        assert_eq!(of(44), None);
        assert_eq!(of(45), None);
        let disk = rustix::fs::makedev(8, 1);
        assert_eq!(find(mounts, disk, &[0]), Some("ext4"));
    }
}
