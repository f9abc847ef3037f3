//! A directory to mount at. A user who is not trusted may control a part of its path.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::mount::foreign::{self, PASS, step};
use crate::mount::guard::{self, DirectoryGuard};
use crate::mount::obstacles::Obstacles;
use crate::mount::open_directory::{has_lost_server, in_proc, is_mount};

/// The number of symbolic links that the kernel follows on one path.
const LINKS_MAX: u32 = 40;

/// A directory: a path, and names below it.
///
/// A symbolic link in the path is followed only if no other user can have put it there. A name below
/// is never a symbolic link. No directory is on a FUSE file system of another user. A user who can make one could have a mount appear, and directories made,
/// anywhere on the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountDirectory {
    base: PathBuf,
    below: PathBuf,
}

impl MountDirectory {
    /// The directory `below` in `base`; `base` itself if that is empty.
    pub fn new(base: impl Into<PathBuf>, below: impl Into<PathBuf>) -> MountDirectory {
        let (base, below) = (base.into(), below.into());
        MountDirectory { base, below }
    }

    /// The whole path.
    pub fn path(&self) -> PathBuf {
        match self.below.as_os_str().is_empty() {
            true => self.base.clone(),
            false => self.base.join(&self.below),
        }
    }

    /// Makes the directories that are missing.
    ///
    /// # Errors
    /// A directory cannot be made or entered, or is a symbolic link that another user can have made.
    pub fn make(&self) -> io::Result<()> {
        self.walk(MissingPolicy::Make).map(drop)
    }

    /// Makes the directories that are missing. The last one gets a guard, so that nothing can be written to it while
    /// nothing is mounted there. Its mode is 0, and where possible it is immutable. For an ordinary user it is closed
    /// by its mode.
    pub fn make_guarded(&self) -> io::Result<()> {
        self.walk(MissingPolicy::Guard).map(drop)
    }

    /// Opens the directory, for no more than finding what is in it.
    ///
    /// # Errors
    /// A directory is missing or cannot be entered, or is a symbolic link that another user can have made.
    pub fn open(&self) -> io::Result<OwnedFd> {
        self.walk(MissingPolicy::Refuse)?.into_dir()
    }

    /// The entries that keep a dataset from being mounted here. Directories on the way to `paths`, and these
    /// themselves, do not count unless something is mounted in them.
    pub fn obstacles(&self, paths: &[PathBuf]) -> io::Result<Obstacles> {
        Obstacles::find(self.open()?, &self.path(), paths)
    }

    /// Closes the directory of an ordinary user again, if a crash left it open.
    pub fn close_again(&self) {
        // Root's has the flag all the time.
        if !rustix::process::geteuid().is_root()
            && let Ok(dir) = self.open()
            && guard::is_closed(&dir)
        {
            guard::close(&dir);
        }
    }

    /// Returns whether something is mounted on the directory.
    ///
    /// # Errors
    /// As [`MountDirectory::open`], or the kernel does not say.
    pub fn is_mount(&self) -> io::Result<bool> {
        is_mount(&self.open()?)
    }

    /// Returns whether a mount is there whose server was killed.
    pub fn is_dead(&self) -> bool {
        self.open().is_ok_and(|dir| has_lost_server(&dir))
    }

    /// Removes the directory, if nothing is in it.
    ///
    /// # Errors
    /// As [`MountDirectory::open`]; the directory is not empty, or cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        let spot = self.spot()?;
        Ok(guard::remove(spot.above.as_fd(), &spot.name)?)
    }

    /// Removes the directory, if nothing is in it and [`MountDirectory::make_guarded`] made it immutable, or closed it.
    ///
    /// # Errors
    /// As [`MountDirectory::remove`].
    pub fn remove_guarded(&self) -> io::Result<()> {
        let spot = self.spot()?;
        let has_guard = DirectoryGuard::of(spot.above.as_fd(), &spot.name).is_some()
            || spot.open().is_ok_and(|dir| guard::is_closed(&dir));
        match has_guard {
            true => Ok(guard::remove(spot.above.as_fd(), &spot.name)?),
            false => Ok(()),
        }
    }

    /// The directory, by its name in the one above.
    pub(crate) fn spot(&self) -> io::Result<Spot> {
        self.walk(MissingPolicy::Refuse)?.into_spot()
    }

    /// Returns whether only root and this process's user can change where the directory is. The directory itself may
    /// be of any user.
    ///
    /// # Errors
    /// As [`MountDirectory::open`].
    pub fn has_safe_way(&self) -> io::Result<bool> {
        let mut walk = self.walk(MissingPolicy::Refuse)?;
        walk.passed.pop();
        Ok(walk.is_safe())
    }

    /// Returns whether only root and this process's user can change where the directory is.
    pub(crate) fn is_safe(&self) -> io::Result<bool> {
        Ok(self.walk(MissingPolicy::Refuse)?.is_safe())
    }

    fn walk(&self, missing: MissingPolicy) -> io::Result<DirectoryWalk> {
        let mut walk = DirectoryWalk::begin(missing)?;
        let mut below = self.below.components().peekable();
        walk.follow(&std::path::absolute(&self.base)?, below.peek().is_none())?;
        while let Some(component) = below.next() {
            match component {
                Component::Normal(name) => walk.enter(name, below.peek().is_none())?,
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        Ok(walk)
    }
}

/// A directory by its name in another one. Exchanged names further up do not change what it means.
pub(crate) struct Spot {
    pub(crate) above: OwnedFd,
    pub(crate) name: OsString,
    /// The path by which it was found.
    pub(crate) path: PathBuf,
}

impl Spot {
    /// Opens what is there now, for no more than finding what is in it.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        step(self.above.as_fd(), &self.name)
    }

    /// A path to it that no other user can change, but for the last name.
    pub(crate) fn in_proc(&self) -> PathBuf {
        in_proc(&self.above).join(&self.name)
    }
}

/// The policy for a directory that is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingPolicy {
    Make,
    /// The directory is made, and the last one gets a guard.
    Guard,
    Refuse,
}

/// A way down from the root, through directories that are open.
struct DirectoryWalk {
    root: OwnedFd,
    passed: Vec<(OsString, OwnedFd)>,
    missing: MissingPolicy,
    links: u32,
}

impl DirectoryWalk {
    fn begin(missing: MissingPolicy) -> io::Result<DirectoryWalk> {
        Ok(DirectoryWalk {
            root: rustix::fs::openat(CWD, "/", PASS, Mode::empty())?,
            passed: Vec::new(),
            missing,
            links: 0,
        })
    }

    fn at(&self) -> BorrowedFd<'_> {
        let last = self.passed.last();
        last.map_or(&self.root, |(_, dir)| dir).as_fd()
    }

    fn path(&self) -> PathBuf {
        let names = self.passed.iter().map(|(name, _)| name);
        Path::new("/").join(names.collect::<PathBuf>())
    }

    /// Follows an absolute path, and the symbolic links in it that no other user can have made.
    /// `to_end` if nothing comes after it.
    fn follow(&mut self, path: &Path, to_end: bool) -> io::Result<()> {
        let names = |path: &Path| -> Vec<OsString> {
            let components = path.components().map(|c| c.as_os_str().to_owned());
            components.collect()
        };
        let mut ahead = VecDeque::from(names(path));
        while let Some(name) = ahead.pop_front() {
            match Path::new(&name).components().next() {
                Some(Component::RootDir) => self.passed.clear(),
                Some(Component::ParentDir) => drop(self.passed.pop()),
                Some(Component::Normal(name)) => match self.enter(name, to_end && ahead.is_empty())
                {
                    Err(error) if is(&error, Errno::NOTDIR) => {
                        let target = self.link(name)?;
                        names(&target)
                            .into_iter()
                            .rev()
                            .for_each(|name| ahead.push_front(name));
                    }
                    result => result?,
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Goes into a directory, unless it is a symbolic link.
    fn enter(&mut self, name: &OsStr, is_last: bool) -> io::Result<()> {
        let dir = match step(self.at(), name) {
            Err(Errno::NOENT) if self.missing != MissingPolicy::Refuse => {
                self.make(name, is_last && self.missing == MissingPolicy::Guard)?;
                step(self.at(), name)?
            }
            result => result?,
        };
        foreign::refuse(self.at(), &dir, &self.path().join(name))?;
        self.passed.push((name.to_owned(), dir));
        Ok(())
    }

    /// Makes a directory, if it is not there meanwhile.
    fn make(&self, name: &OsStr, guarded: bool) -> io::Result<()> {
        let is_root = rustix::process::geteuid().is_root();
        let mode = match guarded && is_root {
            true => guard::GUARDED,
            false => Mode::from_bits_truncate(0o755),
        };
        match guard::make(self.at(), name, mode) {
            Ok(()) if guarded && !is_root => guard::close(&step(self.at(), name)?),
            Ok(()) if guarded && self.is_safe() => DirectoryGuard::put(self.at(), name),
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::PERM) if guard::is_immutable(self.at()) => {
                let path = self.path();
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    format!(
                        "{0} is immutable; to allow changes: chattr -i {0}",
                        path.display()
                    ),
                ));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the target of a symbolic link, if no other user can have made the link.
    fn link(&mut self, name: &OsStr) -> io::Result<PathBuf> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = rustix::fs::openat(self.at(), name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&link)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Err(Errno::NOTDIR.into());
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if !is_trusted(&stat) || !self.is_safe() {
            let path = self.path().join(name);
            return Err(io::Error::other(format!(
                "{} is a symbolic link that another user can change; name the directory itself",
                path.display()
            )));
        }
        let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Returns whether no other user can change the names that were passed.
    fn is_safe(&self) -> bool {
        let above = self.passed.iter().map(|(_, dir)| dir);
        let is_safe = |dir: &OwnedFd| {
            rustix::fs::fstat(dir).is_ok_and(|stat| {
                let others_write = stat.st_mode & 0o022 != 0;
                let is_sticky = stat.st_mode & 0o1000 != 0;
                is_trusted(&stat) && (!others_write || is_sticky)
            })
        };
        std::iter::once(&self.root).chain(above).all(is_safe)
    }

    fn into_dir(mut self) -> io::Result<OwnedFd> {
        let last = self.passed.pop();
        Ok(last.map_or(self.root, |(_, dir)| dir))
    }

    fn into_spot(mut self) -> io::Result<Spot> {
        let path = self.path();
        let (name, _) = self.passed.pop().ok_or(Errno::BUSY)?;
        let above = self.into_dir()?;
        Ok(Spot { above, name, path })
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Returns whether a file belongs to root or to the user of this process.
fn is_trusted(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn directories_are_made_opened_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let place = MountDirectory::new(dir.path().join("a/b"), "c/d");
        place.make().unwrap();
        place.make().unwrap();
        assert!(dir.path().join("a/b/c/d").is_dir());
        assert_eq!(place.path(), dir.path().join("a/b/c/d"));
        let open = place.open().unwrap();
        let found = fs::read_link(in_proc(&open)).unwrap();
        assert_eq!(found, place.spot().unwrap().path);
        place.remove().unwrap();
        assert!(!dir.path().join("a/b/c/d").exists());
        MountDirectory::new(dir.path().join("a/b/c"), "")
            .remove()
            .unwrap();
        assert!(dir.path().join("a/b").exists() && !dir.path().join("a/b/c").exists());
    }

    #[test]
    fn only_root_can_change_a_guarded_place() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: only root guards directories");
        }
        let dir = tempfile::tempdir().unwrap();
        let (own, others) = (dir.path().join("own"), dir.path().join("others"));
        fs::create_dir(&others).unwrap();
        std::os::unix::fs::chown(&others, Some(1000), None).unwrap();
        for (base, is_ours) in [(&own, true), (&others, false)] {
            let place = MountDirectory::new(base, "a/m");
            place.make_guarded().unwrap();
            assert!(place.obstacles(&[]).unwrap().is_free());
            let mode = |path: &str| fs::metadata(base.join(path)).unwrap().permissions().mode();
            assert_eq!((mode("a") & 0o777, mode("a/m") & 0o777), (0o755, 0));
            let at = fs::File::open(base.join("a")).unwrap();
            let has_flag = DirectoryGuard::of(at.as_fd(), OsStr::new("m")).is_some();
            if is_ours && !has_flag {
                eprintln!("skipped: no directory can be made immutable here");
            }
            assert!(is_ours || !has_flag);
            place.remove().unwrap();
            place.remove().unwrap_err();
        }
    }

    #[test]
    fn no_link_leads_out_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (base, out) = (dir.path().join("base"), dir.path().join("out"));
        fs::create_dir(&base).unwrap();
        fs::create_dir_all(out.join("x")).unwrap();
        symlink(&out, base.join("link")).unwrap();
        for below in ["link", "link/x", "link/new"] {
            let place = MountDirectory::new(&base, below);
            assert!(place.make().is_err(), "{below}");
            assert!(place.open().is_err(), "{below}");
            assert!(place.remove().is_err(), "{below}");
        }
        assert!(!out.join("new").exists() && out.join("x").exists());
        for wrong in ["..", "a/../..", "/etc"] {
            assert!(MountDirectory::new(&base, wrong).open().is_err(), "{wrong}");
        }
        // The base itself may be one.
        symlink(&base, dir.path().join("way")).unwrap();
        let place = MountDirectory::new(dir.path().join("way"), "a");
        place.make().unwrap();
        assert!(base.join("a").is_dir());
    }

    #[test]
    fn a_link_that_another_user_can_change_is_not_followed() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: only root has files of another user");
        }
        let dir = tempfile::tempdir().unwrap();
        let (own, shared) = (dir.path().join("own"), dir.path().join("shared"));
        fs::create_dir(&own).unwrap();
        fs::create_dir_all(shared.join("real/x")).unwrap();
        symlink(dir.path(), own.join("link")).unwrap();
        symlink("../../own", shared.join("real/link")).unwrap();
        let open = |path: &str| MountDirectory::new(dir.path().join(path), "").open();
        assert!(open("own/link/own").is_ok());
        assert!(open("shared/real/link").is_ok() && open("shared/real/link/../shared").is_ok());
        let another = Some(1000);
        std::os::unix::fs::lchown(own.join("link"), another, None).unwrap();
        let refused = open("own/link/own").unwrap_err().to_string();
        assert!(refused.contains("own/link is a symbolic link"), "{refused}");
        // A directory on the way is enough, and a sticky one is not.
        let mode = |mode| fs::Permissions::from_mode(mode);
        for (way, is_fine) in [
            (0o777, false),
            (0o775, false),
            (0o1777, true),
            (0o755, true),
        ] {
            fs::set_permissions(&shared, mode(way)).unwrap();
            assert_eq!(open("shared/real/link").is_ok(), is_fine, "{way:o}");
        }
        std::os::unix::fs::chown(&shared, another, None).unwrap();
        assert!(open("shared/real/link").is_err());
        assert!(open("shared/real/x").is_ok(), "without a link");
    }
}
