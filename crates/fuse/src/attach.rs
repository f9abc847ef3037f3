//! Mounts of root's: how one gets into the tree of directories, how it is found again, and how it goes.
//!
//! A path does not say which mount is meant: a user who owns a directory on the way can exchange it
//! for another one between two system calls. So a mount is put onto a directory that is open, it is
//! known by its number, and what changes or removes it names an open directory in `/proc`.
//!
//! An open directory of the mount would keep it busy, for `umount` of others too. So none is kept,
//! and the mount is found by its number each time.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags,
};

use crate::buffer::MAX_WRITE;
use crate::error::Error;
use crate::options::{AccessTimes, Options};
use crate::place::{Spot, in_proc};

/// How often a mount is looked for whose path changes meanwhile.
const LOOKS: usize = 200;

/// What the kernel calls a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) mount: u64,
    /// The minor number of its device, which is also the number of its FUSE connection.
    pub(crate) connection: u32,
}

/// Makes a mount that is nowhere in the tree yet. It goes when its descriptor is closed.
pub(crate) fn create(device: &OwnedFd, options: &Options) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let fd = device.as_raw_fd().to_string();
    let user = rustix::process::geteuid().as_raw().to_string();
    let group = rustix::process::getegid().as_raw().to_string();
    let max_read = MAX_WRITE.to_string();
    let settings = [
        ("source", options.fs_name.as_str()),
        ("subtype", &options.subtype),
        ("fd", &fd),
        ("rootmode", "40000"),
        ("user_id", &user),
        ("group_id", &group),
        ("max_read", &max_read),
    ];
    for (name, value) in settings {
        let value = CString::new(value).map_err(|_| Errno::INVAL)?;
        rustix::mount::fsconfig_set_string(&context, name, value)?;
    }
    rustix::mount::fsconfig_set_flag(&context, "default_permissions")?;
    if options.allow_other {
        rustix::mount::fsconfig_set_flag(&context, "allow_other")?;
    }
    rustix::mount::fsconfig_create(&context)?;
    let mut attributes = MountAttrFlags::empty();
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, options.read_only);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOSUID, options.nosuid);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NODEV, options.nodev);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, options.noexec);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NODIRATIME, options.nodiratime);
    attributes |= match options.access_times {
        AccessTimes::Never => MountAttrFlags::MOUNT_ATTR_NOATIME,
        AccessTimes::Relative => MountAttrFlags::MOUNT_ATTR_RELATIME,
        AccessTimes::Always => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
    };
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Puts a mount onto a directory.
pub(crate) fn attach(mount: &OwnedFd, dir: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", dir, "", flags)
}

/// Has the mount of which `root` is the root, at `path`, follow the options.
///
/// `mount_setattr` would do the same, and no safe interface has it.
///
/// # Errors
/// [`Error::Writing`] if files are open for writing that is to end; [`Error::Mount`] if the kernel refuses.
pub(crate) fn change(root: &OwnedFd, path: &Path, options: &Options) -> Result<(), Error> {
    let mut flags = MountFlags::BIND;
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, options.nosuid);
    flags.set(MountFlags::NODEV, options.nodev);
    flags.set(MountFlags::NOEXEC, options.noexec);
    flags.set(MountFlags::NODIRATIME, options.nodiratime);
    flags |= match options.access_times {
        AccessTimes::Never => MountFlags::NOATIME,
        AccessTimes::Relative => MountFlags::RELATIME,
        AccessTimes::Always => MountFlags::STRICTATIME,
    };
    rustix::mount::mount_remount(in_proc(root), flags, "").map_err(|cause| {
        let path = path.to_owned();
        match cause {
            Errno::BUSY => Error::Writing(path),
            cause => Error::Mount { path, cause },
        }
    })
}

/// Unmounts what is mounted there, unless it is in use.
pub(crate) fn unmount(spot: &Spot) -> Result<(), Errno> {
    // Any descriptor of the mount itself would be a use of it. So this names the last directory. The
    // kernel refuses to rename that one while something is mounted on it. From another mount
    // namespace it allows that, as it allows there to remove a directory together with its mounts.
    rustix::mount::unmount(spot.in_proc(), UnmountFlags::NOFOLLOW)
}

/// Takes the mount of which `root` is the root out of the tree, even if it is in use, and ends it.
pub(crate) fn detach(root: &OwnedFd) -> Result<(), Errno> {
    let flags = UnmountFlags::DETACH | UnmountFlags::FORCE;
    rustix::mount::unmount(in_proc(root), flags)
}

/// Takes the mount of which `root` is the root out of the tree. Programs keep the files that they have open.
pub(crate) fn hide(root: &OwnedFd) -> Result<(), Errno> {
    rustix::mount::unmount(in_proc(root), UnmountFlags::DETACH)
}

/// The mount that a descriptor is on.
pub(crate) fn id_of(dir: &OwnedFd) -> Option<Id> {
    id(dir, Path::new(""), AtFlags::EMPTY_PATH).or_else(|| id_by_proc(dir))
}

/// The mount that a directory is on.
pub(crate) fn id_at(spot: &Spot) -> Option<Id> {
    let known = id(
        &spot.above,
        Path::new(&spot.name),
        AtFlags::SYMLINK_NOFOLLOW,
    );
    known.or_else(|| id_by_proc(&spot.open().ok()?))
}

fn id(dir: &OwnedFd, name: &Path, flags: AtFlags) -> Option<Id> {
    // Without synchronizing, this asks nothing of the file system.
    let flags = flags | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(dir, name, flags, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(Id {
        mount: found.stx_mnt_id,
        connection: found.stx_dev_minor,
    })
}

/// The mount that a descriptor is on, by `/proc`: `statx` tells it only since Linux 5.8.
fn id_by_proc(dir: &OwnedFd) -> Option<Id> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_raw_fd())).ok()?;
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(dir, "", flags, StatxFlags::empty()).ok()?;
    Some(Id {
        mount: mount.trim().parse().ok()?,
        connection: found.stx_dev_minor,
    })
}

/// Looks for a mount, first where it was. None if it is not in the tree, or something covers it.
pub(crate) fn find(id: Id, was: &Path) -> Option<Spot> {
    let mut path = Some(was.to_owned());
    for _ in 0..LOOKS {
        let found = path.and_then(|path| spot(&path));
        if let Some(spot) = found.filter(|spot| id_at(spot) == Some(id)) {
            return Some(spot);
        }
        // Where it is now: a directory above has another name.
        path = Some(listed(id)?);
    }
    None
}

/// What a path leads to. It may lead elsewhere a moment later, so the number has to be compared.
pub(crate) fn spot(path: &Path) -> Option<Spot> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::openat(CWD, path.parent()?, flags, Mode::empty()).ok()?;
    Some(Spot {
        above,
        name: path.file_name()?.to_owned(),
        path: path.to_owned(),
    })
}

/// Where this mount namespace has the mount.
pub(crate) fn listed(id: Id) -> Option<PathBuf> {
    let list = fs::read("/proc/self/mountinfo").ok()?;
    let (mount, device) = (id.mount.to_string(), format!("0:{}", id.connection));
    list.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let is_it =
            fields.next() == Some(mount.as_bytes()) && fields.nth(1) == Some(device.as_bytes());
        is_it.then(|| fields.nth(1).map(unescaped))?
    })
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

    #[test]
    fn both_ways_to_the_number_of_a_mount_agree() {
        for path in ["/", "/proc", "/dev/shm"] {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(CWD, path, flags, Mode::empty()).unwrap();
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
