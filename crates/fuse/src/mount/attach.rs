//! Mounts of root: attaching one to the tree of directories, finding it again, and detaching it.
//!
//! A path does not say which mount is meant. A user who owns a directory on the way can exchange it for another one
//! between two system calls. So a mount is attached to a directory that is open, and is known by its number. Calls
//! that change or remove it name an open directory in `/proc`.
//!
//! An open directory of the mount would keep it busy, for `umount` of others too. So none is kept,
//! and the mount is found by its number each time.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags,
};

use crate::error::Error;
use crate::mount::mountinfo::{Id, all_listed, id, id_by_proc, id_of, listed};
use crate::mount::mountpoint::{MountDirectory, Spot};
use crate::mount::open_directory::in_proc;
use crate::options::{AccessTimePolicy, Options};
use crate::wire::buffer::MAX_WRITE;

/// The number of attempts to find a mount whose path changes meanwhile.
const LOOKS: usize = 200;

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
        AccessTimePolicy::Never => MountAttrFlags::MOUNT_ATTR_NOATIME,
        AccessTimePolicy::Relative => MountAttrFlags::MOUNT_ATTR_RELATIME,
        AccessTimePolicy::Always => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
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
        AccessTimePolicy::Never => MountFlags::NOATIME,
        AccessTimePolicy::Relative => MountFlags::RELATIME,
        AccessTimePolicy::Always => MountFlags::STRICTATIME,
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

/// Takes all mounts of a file system out of the tree that can be reached, and ends them. Nothing is taken unless
/// `is_current` says, after all of them are open, that the number still means this file system.
pub(crate) fn detach_all(id: Id, is_current: impl Fn() -> bool) {
    let listed = all_listed(id.connection).into_iter();
    let found: Vec<_> = listed
        .map(|(mount, path)| {
            let root = spot(&path).and_then(|spot| spot.open().ok());
            (root.filter(|root| id_of(root) == Some(mount)), path)
        })
        .collect();
    // The open directories keep the file system, so the number means the same one from here on.
    if !is_current() {
        return;
    }
    for (root, path) in found {
        let Some(root) = root else {
            tracing::warn!(path = %path.display(), "stays in the tree without a server: something is mounted on top");
            continue;
        };
        if let Err(error) = detach(&root) {
            tracing::warn!(%error, path = %path.display(), "stays in the tree without a server");
        }
    }
}

/// Takes the mount of which `root` is the root out of the tree. Programs keep the files that they have open.
pub(crate) fn hide(root: &OwnedFd) -> Result<(), Errno> {
    rustix::mount::unmount(in_proc(root), UnmountFlags::DETACH)
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

/// The directory of a path without links. It may be another one a moment later, so the number has to be compared.
pub(crate) fn spot(path: &Path) -> Option<Spot> {
    MountDirectory::new("/", path.strip_prefix("/").ok()?)
        .spot()
        .ok()
}
