//! Entries of a directory that a mount there would hide.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use crate::mount::foreign::step;
use crate::mount::guard::Opening;
use crate::mount::open_directory::{in_proc, is_mount};

/// The number of names that a message shows.
const NAMES_MAX: usize = 3;
/// The number of entries that are counted.
const COUNT_MAX: usize = 100_000;

/// The entries of a directory that keep a dataset from being mounted there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// The first names, in order.
    pub names: BTreeSet<OsString>,
    /// The number of entries, or the limit if there are more.
    pub count: usize,
    /// The user who owns all of them; `None` if there are several.
    pub owner: Option<u32>,
    /// A directory in which something is mounted.
    pub mount: Option<PathBuf>,
}

impl Obstacles {
    /// Returns whether there is no obstacle.
    pub fn is_free(&self) -> bool {
        self.count == 0
    }

    /// Returns whether there are more than were counted.
    pub fn is_cut(&self) -> bool {
        self.count == COUNT_MAX
    }

    /// Finds the entries of a directory, at `path`, that are not on the way to one of these paths.
    pub(crate) fn find(dir: OwnedFd, path: &Path, paths: &[PathBuf]) -> io::Result<Obstacles> {
        let mut found = Obstacles::default();
        let _open = Opening::of(dir.try_clone()?);
        for entry in fs::read_dir(in_proc(&dir))? {
            let name = entry?.file_name();
            match way(&dir, &name, path, paths)? {
                ObstacleKind::Free => {}
                ObstacleKind::Blocked => found.add(&dir, name)?,
                ObstacleKind::Mount(at) => {
                    found.mount = Some(at);
                    found.add(&dir, name)?;
                }
            }
            if found.is_cut() {
                break;
            }
        }
        Ok(found)
    }

    fn add(&mut self, dir: &OwnedFd, name: OsString) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let owner = match rustix::fs::statx(dir, &name, flags, StatxFlags::UID) {
            Ok(stat) => Some(stat.stx_uid),
            // It went away meanwhile.
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => None,
        };
        self.owner = match self.count {
            0 => owner,
            _ => self.owner.filter(|had| Some(*had) == owner),
        };
        self.count += 1;
        self.names.insert(name);
        if self.names.len() > NAMES_MAX {
            self.names.pop_last();
        }
        Ok(())
    }
}

/// The meaning of an entry for a mount.
enum ObstacleKind {
    /// A directory on the way to a path, with nothing else in it.
    Free,
    Blocked,
    /// A directory on which a file system is mounted.
    Mount(PathBuf),
}

/// Looks at an entry. It goes no deeper than these paths.
fn way(above: &OwnedFd, name: &OsStr, path: &Path, paths: &[PathBuf]) -> io::Result<ObstacleKind> {
    let path = path.join(name);
    let dir = match step(above.as_fd(), name) {
        Ok(dir) => dir,
        Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(ObstacleKind::Blocked),
        Err(Errno::NOENT) => return Ok(ObstacleKind::Free),
        Err(error) => return Err(error.into()),
    };
    if is_mount(&dir)? {
        return Ok(ObstacleKind::Mount(path));
    }
    if !paths.iter().any(|way| way.starts_with(&path)) {
        return Ok(ObstacleKind::Blocked);
    }
    let _open = Opening::of(dir.try_clone()?);
    for entry in fs::read_dir(in_proc(&dir))? {
        match way(&dir, &entry?.file_name(), &path, paths)? {
            ObstacleKind::Free => {}
            blocked => return Ok(blocked),
        }
    }
    Ok(ObstacleKind::Free)
}
