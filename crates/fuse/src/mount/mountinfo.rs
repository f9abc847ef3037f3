//! The kernel's list of mounts, and the numbers of mounts in it. Nothing here asks a file system anything.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};

/// The numbers of a mount in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) mount: u64,
    /// The minor number of its device, which is also the number of its FUSE connection.
    pub(crate) connection: u32,
}

/// The mount that a descriptor is on.
pub(crate) fn id_of(dir: impl AsFd) -> Option<Id> {
    id(&dir, Path::new(""), AtFlags::EMPTY_PATH).or_else(|| id_by_proc(&dir))
}

pub(crate) fn id(dir: impl AsFd, name: &Path, flags: AtFlags) -> Option<Id> {
    // Without synchronizing, this asks nothing of the file system.
    let flags = flags | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(dir, name, flags, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(Id {
        mount: found.stx_mnt_id,
        connection: found.stx_dev_minor,
    })
}

/// The mount that a descriptor is on, by `/proc`: `statx` tells it only since Linux 5.8.
pub(crate) fn id_by_proc(dir: impl AsFd) -> Option<Id> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_fd().as_raw_fd())).ok()?;
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(dir, "", flags, StatxFlags::empty()).ok()?;
    Some(Id {
        mount: mount.trim().parse().ok()?,
        connection: found.stx_dev_minor,
    })
}

/// Returns the path of the mount in this mount namespace.
pub(crate) fn listed(id: Id) -> Option<PathBuf> {
    let all = all_listed(id.connection).into_iter();
    all.filter(|(found, _)| *found == id)
        .map(|(_, path)| path)
        .next()
}

/// All mounts of a file system that this mount namespace has.
pub(crate) fn all_listed(connection: u32) -> Vec<(Id, PathBuf)> {
    let list = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let device = format!("0:{connection}");
    let lines = list.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let mount = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        (fields.nth(1)? == device.as_bytes()).then_some(())?;
        Some((Id { mount, connection }, unescaped(fields.nth(1)?)))
    });
    lines.collect()
}

/// A mount in a directory of this one, as this mount namespace has it.
pub(crate) fn inside(id: Id) -> Option<PathBuf> {
    let list = fs::read("/proc/self/mountinfo").ok()?;
    let parent = id.mount.to_string();
    list.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let is_inside = fields.nth(1) == Some(parent.as_bytes());
        is_inside.then(|| fields.nth(2).map(unescaped))?
    })
}

/// Spaces and the like are octal numbers in the kernel's lists.
pub(crate) fn unescaped(field: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let number = after.get(..3).filter(|_| *first == b'\\');
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                rest = &after[3..];
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    #[test]
    fn both_ways_to_the_number_of_a_mount_agree() {
        for path in ["/", "/proc", "/dev/shm"] {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(rustix::fs::CWD, path, flags, Mode::empty()).unwrap();
            let known = id(&dir, Path::new(""), AtFlags::EMPTY_PATH).unwrap();
            assert_eq!(id_by_proc(&dir), Some(known), "{path}");
        }
    }

    #[test]
    fn names_in_the_kernels_list() {
        assert_eq!(unescaped(b"/a\\040b\\134\\x"), Path::new("/a b\\\\x"));
        assert_eq!(unescaped(b"/plain"), Path::new("/plain"));
        assert_eq!(unescaped(b"/end\\04"), Path::new("/end\\04"));
    }
}
