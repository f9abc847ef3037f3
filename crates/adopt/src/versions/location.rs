//! The location of a file: the mounted dataset, and the path in it. The file and its directories may be gone.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use console::mount_type;
use console::outcome::Result;
use console::session::{other, usage};
use protocol::api::{Failure, FailureKind};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use crate::copy::node::FileNode;
use crate::place;

/// A file of a mounted dataset.
pub(crate) struct FileLocation {
    /// The directory at which the dataset is mounted.
    pub(crate) root: FileNode,
    /// The path of that directory.
    pub(crate) mountpoint: PathBuf,
    /// The directory of the file, unless it is gone.
    pub(crate) dir: Option<FileNode>,
    /// The path of the file below the root.
    pub(crate) path: PathBuf,
}

impl FileLocation {
    /// Finds the dataset of a file. Links that lead to its directory are followed, as for any command.
    pub(crate) fn find(named: &Path) -> Result<FileLocation> {
        let shown = named.display();
        let cannot = |error: io::Error| other(format!("cannot look at '{shown}': {error}"));
        let named = match named.file_name() {
            Some(_) => named.to_owned(),
            None => std::fs::canonicalize(named).map_err(cannot)?,
        };
        let (existing, gone) = existing_above(&named)?;
        let is_dataset = mount_type::of_device(existing.meta.dev())
            .map_err(cannot)?
            .is_some_and(|kind| kind == mount_type::DATASET);
        let Some(root) = is_dataset
            .then(|| mount_root(&existing))
            .transpose()
            .map_err(cannot)?
            .flatten()
        else {
            return Err(usage(format!(
                "'{shown}' is not in a mounted dataset; name a file in one: 'strongroom mount' lists those that are mounted"
            )));
        };
        let mountpoint = existing_path(&root).map_err(cannot)?;
        let above = existing_path(&existing).map_err(cannot)?;
        let below = above.strip_prefix(&mountpoint);
        let below = below.map_err(|_| other(format!("'{shown}' was moved; try again")))?;
        let path = below.join(&gone);
        if path.starts_with(OsStr::from_bytes(vfs::SNAPSHOT_DIR)) {
            return Err(usage(format!(
                "'{shown}' is in a snapshot; name the file as it is called in the dataset"
            )));
        }
        let is_only_file = gone.components().count() == 1;
        Ok(FileLocation {
            root,
            mountpoint,
            dir: is_only_file.then_some(existing),
            path,
        })
    }

    pub(crate) fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// The path of a snapshot's directory, below the root.
    pub(crate) fn snapshot(name: impl AsRef<OsStr>) -> PathBuf {
        Path::new(OsStr::from_bytes(vfs::SNAPSHOT_DIR)).join(name.as_ref())
    }

    /// The names of the snapshots, the oldest first.
    pub(crate) fn snapshots(&self) -> io::Result<Vec<OsString>> {
        let dir = self.root.child(OsStr::from_bytes(vfs::SNAPSHOT_DIR))?;
        dir.ok_or(io::ErrorKind::NotFound)?.listed()
    }

    /// Looks for the file in a snapshot. A link in the place of a directory leads nowhere.
    pub(crate) fn in_snapshot(&self, name: &OsStr) -> io::Result<Option<FileNode>> {
        let Some(top) = self.root.child(FileLocation::snapshot(name))? else {
            return Ok(None);
        };
        match top.child(&self.path) {
            Err(error) if is_other_kind(&error) => Ok(None),
            found => found,
        }
    }
}

/// Returns whether a part of a path is not a directory, but a file or a symbolic link.
fn is_other_kind(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOTDIR | Errno::LOOP))
}

/// The lowest directory above a file that exists, and the rest of the path.
fn existing_above(file: &Path) -> Result<(FileNode, PathBuf)> {
    let mut above = file.to_owned();
    loop {
        above.pop();
        let dir = match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => &above,
        };
        match place::open(dir) {
            Ok(existing) => {
                let gone = file.strip_prefix(&above).unwrap_or(file).to_owned();
                return match gone
                    .components()
                    .all(|part| matches!(part, Component::Normal(_)))
                {
                    true => Ok((existing, gone)),
                    false => Err(Failure::new(
                        FailureKind::NotFound,
                        format!(
                            "'{}' has '..' below a directory that is gone",
                            file.display()
                        ),
                    )),
                };
            }
            Err(missing)
                if missing.kind == FailureKind::NotFound && !above.as_os_str().is_empty() => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// The root of the dataset that a directory is in. None if the mount shows only a part of the dataset.
fn mount_root(dir: &FileNode) -> io::Result<Option<FileNode>> {
    let mut at = dir.child(".")?;
    while let Some(dir) = at {
        if dir.meta.ino() == vfs::ROOT {
            return Ok(Some(dir));
        }
        let above = dir.parent()?;
        let is_same_mount = mount_of(&above)? == mount_of(&dir)?;
        at = (is_same_mount && above.identity() != dir.identity()).then_some(above);
    }
    Ok(None)
}

/// The number of the mount that a directory is seen through.
fn mount_of(dir: &FileNode) -> io::Result<u64> {
    let seen = rustix::fs::statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    Ok(seen.stx_mnt_id)
}

/// The path at which a directory is at present.
fn existing_path(dir: &FileNode) -> io::Result<PathBuf> {
    std::fs::read_link(dir.proc_path())
}
