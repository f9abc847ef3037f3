//! The paths of callers.
//!
//! They are below one directory. Each is looked up once, from that directory on and without symbolic links; what is
//! done there is done to the open directory. So a container that changes what it can write to leads nowhere else.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, IFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_remount, move_mount, open_tree,
    unmount,
};

use super::mounts::{self, KernelMount, ServedFiles};
use crate::names::{VolumeId, shown};
use crate::status::{GrpcCode, GrpcStatus, Result};

const HERE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// The number of mounts on top of each other that are unmounted at most.
const LAYERS_MAX: usize = 8;

/// A name in an open directory.
pub(crate) struct MountTarget {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl MountTarget {
    /// A path below `base`. `None` if the directory that it is in does not exist.
    pub(super) fn find(base: &Path, path: &str) -> Result<Option<MountTarget>> {
        let wrong = |why: String| GrpcStatus::invalid(format!("the path '{}' {why}", shown(path)));
        let outside = || wrong(format!("is not below {} (--kubelet-dir)", base.display()));
        let rest = Path::new(path).strip_prefix(base).map_err(|_| outside())?;
        let is_plain = rest
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let name = rest
            .file_name()
            .filter(|_| is_plain && !path.contains('\0'));
        let name = name.ok_or_else(outside)?.to_owned();
        let above = match rest.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let cannot = |error: Errno| wrong(format!("cannot be used: {error}"));
        let base = rustix::fs::open(base, flags, Mode::empty()).map_err(cannot)?;
        match rustix::fs::openat2(&base, above, flags, Mode::empty(), straight()) {
            Ok(parent) => Ok(Some(MountTarget {
                parent,
                name,
                path: path.into(),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(cannot(error)),
        }
    }

    /// Opens the target, if it exists.
    pub(super) fn open(&self) -> Result<Option<OwnedFd>> {
        match rustix::fs::openat2(&self.parent, &self.name, HERE, Mode::empty(), straight()) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.cannot("open", error)),
        }
    }

    /// The mount at the target.
    pub(super) fn mounted(&self) -> Result<Option<KernelMount>> {
        match self.open()? {
            Some(found) => mounts::at(found, &self.parent),
            None => Ok(None),
        }
    }

    /// Returns whether the mount at the target is or was of a dataset.
    pub(super) fn has(&self, files: &ServedFiles, mount: &KernelMount) -> bool {
        let root = self.open().ok().flatten();
        root.is_some_and(|root| files.has(mount, root))
    }

    /// Makes a directory there, if there is none. Says whether it did.
    pub(super) fn make_dir(&self) -> Result<bool> {
        match rustix::fs::mkdirat(&self.parent, &self.name, Mode::from_raw_mode(0o750)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(self.cannot("make", error)),
        }
    }

    /// Has the directory that is there refuse new files. When its mount is gone with the daemon, a container that starts
    /// again would write to the disk of the node else, in the clear. Not all file systems have the flag.
    pub(super) fn guard(&self, is_guarded: bool) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat2(&self.parent, &self.name, flags, Mode::empty(), straight());
        let dir = dir.map_err(|error| self.cannot("open", error))?;
        if let Ok(mut flags) = rustix::fs::ioctl_getflags(&dir)
            && flags.contains(IFlags::IMMUTABLE) != is_guarded
        {
            flags.set(IFlags::IMMUTABLE, is_guarded);
            let _ = rustix::fs::ioctl_setflags(&dir, flags);
        }
        Ok(())
    }

    /// Makes an empty file there, if there is none. Says whether it did.
    pub(super) fn make_file(&self) -> Result<bool> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.parent, &self.name, flags, Mode::from_raw_mode(0o600)) {
            Ok(_) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(self.cannot("make", error)),
        }
    }

    /// Mounts a clone of what `source` is the root of, with these options or with its own.
    pub(super) fn mount(&self, source: BorrowedFd<'_>, flags: Option<MountFlags>) -> Result<()> {
        let tree = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        let tree = open_tree(source, "", tree).map_err(|error| self.cannot("mount at", error))?;
        let gone = || GrpcStatus::internal(format!("{} is gone", self.path.display()));
        let place = self.open()?.ok_or_else(gone)?;
        let both =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&tree, "", &place, "", both).map_err(|error| self.cannot("mount at", error))?;
        let Some(flags) = flags else {
            return Ok(());
        };
        // Nobody was told of the mount yet, so nobody uses it before it has its options.
        let root = self.open()?.ok_or_else(gone)?;
        let limited = mount_remount(itself(root.as_fd()), MountFlags::BIND | flags, "");
        limited.map_err(|error| {
            let _ = self.unmount_one();
            self.cannot("set the options of", error)
        })
    }

    /// Unmounts what is there and `may_go`.
    pub(super) fn unmount(&self, may_go: impl Fn(&KernelMount) -> bool) -> Result<()> {
        for _ in 0..LAYERS_MAX {
            match self.mounted()? {
                None => return Ok(()),
                Some(mount) if may_go(&mount) => self.unmount_one()?,
                Some(_) => break,
            }
        }
        Err(GrpcStatus::precondition(format!(
            "something else is mounted at {}",
            self.path.display()
        )))
    }

    fn unmount_one(&self) -> Result<()> {
        let path = Path::new(&itself(self.parent.as_fd())).join(&self.name);
        unmount(path, UnmountFlags::NOFOLLOW).map_err(|error| self.cannot("unmount", error))
    }

    /// Removes the empty directory or the empty file that is there.
    pub(super) fn remove(&self) -> Result<()> {
        let Some(found) = self.open()? else {
            return Ok(());
        };
        let is = rustix::fs::fstat(&found).map_err(|error| self.cannot("look at", error))?;
        let flags = match FileType::from_raw_mode(is.st_mode) {
            FileType::Directory => {
                self.guard(false)?;
                AtFlags::REMOVEDIR
            }
            FileType::RegularFile if is.st_size == 0 => AtFlags::empty(),
            _ => {
                return Err(GrpcStatus::precondition(format!(
                    "{} is neither a directory nor an empty file, and stays",
                    self.path.display()
                )));
            }
        };
        match rustix::fs::unlinkat(&self.parent, &self.name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.cannot("remove", error)),
        }
    }

    fn cannot(&self, what: &str, error: Errno) -> GrpcStatus {
        let path = self.path.display().to_string();
        GrpcStatus::internal(format!("cannot {what} {}: {error}", shown(&path)))
    }
}

/// Checks that a call names a volume and a path. Returns the path.
pub(super) fn given<'a>(id: &str, path: &'a str) -> Result<&'a str> {
    match (id, path) {
        ("", _) => Err(GrpcStatus::invalid("the id of the volume is missing")),
        (_, "") => Err(GrpcStatus::invalid("the path is missing")),
        _ => Ok(path),
    }
}

/// The failure of a call that finds something else where the volume should be.
pub(super) fn taken(place: &Path) -> GrpcStatus {
    let place = place.display();
    let why = format!("something else, or the volume with other options, is mounted at {place}");
    GrpcStatus::new(GrpcCode::AlreadyExists, why)
}

/// The failure of a call for a second path of a volume that may be at one only.
pub(super) fn elsewhere(id: &VolumeId, place: &Path) -> GrpcStatus {
    let place = place.display();
    GrpcStatus::precondition(format!("'{id}' may be at one path only, and is at {place}"))
}

/// Neither out of the directory nor through a symbolic link.
fn straight() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

/// A path that leads to an open file, whatever has its name now.
pub(super) fn itself(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Opens a file or directory of the driver itself, for no more than naming it.
pub(super) fn open_own(path: impl AsRef<OsStr>) -> rustix::io::Result<OwnedFd> {
    let flags = HERE | OFlags::NOFOLLOW;
    rustix::fs::open(Path::new(path.as_ref()), flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_lead_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("kubelet");
        std::fs::create_dir_all(base.join("pods")).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        symlink("../other", base.join("link")).unwrap();
        symlink("/etc", base.join("pods/etc")).unwrap();
        let find = |path: &str| MountTarget::find(&base, &format!("{}/{path}", base.display()));
        for wrong in [
            "",
            ".",
            "..",
            "a/../b",
            "../other/a",
            "link/a",
            "pods/etc/a",
            "a\0b",
        ] {
            assert!(find(wrong).is_err(), "{wrong:?}");
        }
        assert!(MountTarget::find(&base, "pods/a").is_err());
        assert!(MountTarget::find(&base, "/etc/a").is_err());
        assert!(find("none/a").unwrap().is_none());
        // What is a link itself is not followed either.
        let link = find("link").unwrap().unwrap();
        assert!(link.open().is_err());
        let target = find("pods/a").unwrap().unwrap();
        assert!(target.open().unwrap().is_none());
        assert!(target.make_dir().unwrap() && !target.make_dir().unwrap());
        assert!(target.mounted().unwrap().is_none());
        std::fs::write(base.join("pods/a/file"), "kept").unwrap();
        assert!(target.remove().is_err());
        std::fs::remove_file(base.join("pods/a/file")).unwrap();
        target.remove().unwrap();
        target.remove().unwrap();
        target.make_file().unwrap();
        std::fs::write(base.join("pods/a"), "kept").unwrap();
        assert!(target.remove().is_err());
    }
}
