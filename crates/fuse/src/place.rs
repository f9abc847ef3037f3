//! A directory to mount at, of whose path a part may be under the control of somebody who is not trusted.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// What opens a directory for no more than finding what is in it.
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory: a path that is followed as it is, symbolic links and all, and names below it of which none
/// may be a symbolic link. Whoever can make one there could have a mount appear, and directories made,
/// anywhere on the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    base: PathBuf,
    below: PathBuf,
}

impl Place {
    /// The directory `below` in `base`; `base` itself if that is empty.
    pub fn new(base: impl Into<PathBuf>, below: impl Into<PathBuf>) -> Place {
        let (base, below) = (base.into(), below.into());
        Place { base, below }
    }

    /// The whole path.
    pub fn path(&self) -> PathBuf {
        match self.below.as_os_str().is_empty() {
            true => self.base.clone(),
            false => self.base.join(&self.below),
        }
    }

    /// Makes the directories that are missing.
    pub fn make(&self) -> io::Result<()> {
        fs::create_dir_all(&self.base)?;
        let mut at = open_base(&self.base)?;
        for name in self.names()? {
            match rustix::fs::mkdirat(&at, name, Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = step(&at, name)?;
        }
        Ok(())
    }

    /// Opens the directory, for no more than finding what is in it.
    pub fn open(&self) -> io::Result<OwnedFd> {
        let mut at = open_base(&self.base)?;
        for name in self.names()? {
            at = step(&at, name)?;
        }
        Ok(at)
    }

    /// Whether nothing is in the directory.
    pub fn is_empty(&self) -> io::Result<bool> {
        let dir = self.open()?;
        Ok(fs::read_dir(in_proc(&dir))?.next().is_none())
    }

    /// Removes the directory, if nothing is in it.
    pub fn remove(&self) -> io::Result<()> {
        let (Some(above), Some(name)) = (self.below.parent(), self.below.file_name()) else {
            return fs::remove_dir(&self.base);
        };
        let above = Place::new(&self.base, above).open()?;
        Ok(rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR)?)
    }

    /// Where a mount on the directory that was opened is found.
    pub(crate) fn absolute(&self) -> io::Result<PathBuf> {
        Ok(Place::new(fs::canonicalize(&self.base)?, &self.below).path())
    }

    fn names(&self) -> io::Result<Vec<&Path>> {
        let names = self.below.components().map(|component| match component {
            Component::Normal(name) => Ok(Path::new(name)),
            _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        });
        names.collect()
    }
}

/// The name of an open directory in `/proc`, which means it wherever it is moved.
pub(crate) fn in_proc(dir: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

fn open_base(base: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, base, PASS, Mode::empty())?)
}

/// Opens a directory in another one, unless it is a symbolic link.
fn step(at: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = PASS | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_are_made_opened_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(dir.path().join("a/b"), "c/d");
        place.make().unwrap();
        place.make().unwrap();
        assert!(dir.path().join("a/b/c/d").is_dir());
        assert_eq!(place.path(), dir.path().join("a/b/c/d"));
        let open = place.open().unwrap();
        let found = fs::read_link(in_proc(&open)).unwrap();
        assert_eq!(found, place.absolute().unwrap());
        place.remove().unwrap();
        assert!(!dir.path().join("a/b/c/d").exists());
        Place::new(dir.path().join("a/b/c"), "").remove().unwrap();
        assert!(dir.path().join("a/b").exists() && !dir.path().join("a/b/c").exists());
    }

    #[test]
    fn no_link_leads_out_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (base, out) = (dir.path().join("base"), dir.path().join("out"));
        fs::create_dir(&base).unwrap();
        fs::create_dir_all(out.join("x")).unwrap();
        symlink(&out, base.join("link")).unwrap();
        for below in ["link", "link/x", "link/new"] {
            let place = Place::new(&base, below);
            assert!(place.make().is_err(), "{below}");
            assert!(place.open().is_err(), "{below}");
            assert!(place.remove().is_err(), "{below}");
        }
        assert!(!out.join("new").exists() && out.join("x").exists());
        for wrong in ["..", "a/../..", "/etc"] {
            assert!(Place::new(&base, wrong).open().is_err(), "{wrong}");
        }
        // The base itself may be one.
        symlink(&base, dir.path().join("way")).unwrap();
        let place = Place::new(dir.path().join("way"), "a");
        place.make().unwrap();
        assert!(base.join("a").is_dir());
    }
}
