//! The lower directory of a command, and its file of key chains.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use fuse::ListedMount;
use protocol::api::{Failure, FailureKind};
use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, OFlags, Uid};
use stack::Entry;
use stack::formats::pefs::{
    self, Algorithm, CONFIG_NAME, Chains, Config, DATABASE_MAX, DATABASE_NAME, KeyError,
};
use vfs::Error;

use crate::pefs::args::PefsDirectory;
use crate::stack::run::{
    ControlAnswer, CoveredDirectory, Request, SUBTYPE, StackedMount, is_credible, open_directory,
};

/// The new file until it is whole.
const TEMPORARY: &str = ".pefs.db.new";

/// A lower directory.
pub(super) struct Lower {
    path: PathBuf,
    dir: Entry,
    /// Holds it open below a mount over itself.
    _covered: Option<CoveredDirectory>,
}

impl Lower {
    /// The directory that a command names, by itself or by its mount.
    pub(super) fn open(place: &PefsDirectory) -> Result<Lower> {
        let Some(mount) = mount_at(&place.dir) else {
            return match place.is_lower {
                true => Lower::named(&place.dir),
                false => Err(not_mounted(&place.dir)),
            };
        };
        if !is_credible(&mount) {
            let (dir, lower) = (place.dir.display(), &mount.source);
            let why = format!(
                "{dir} is a mount of the user {}, and {lower} belongs to another user; with -f, name the lower directory",
                mount.user
            );
            return Err(Failure::new(FailureKind::Permission, why));
        }
        let below = PathBuf::from(&mount.source);
        match place.is_lower {
            // What is written to the mount is encrypted: `.pefs.db` would be lost.
            _ if below == mount.path => Lower::covered(&mount.path),
            true => Err(Failure::usage(format!(
                "{} is a mount of {}; leave -f out, or name that",
                place.dir.display(),
                mount.source
            ))),
            false => Lower::named(&below),
        }
    }

    /// The lower directory of a mount over itself.
    fn covered(path: &Path) -> Result<Lower> {
        let covered = CoveredDirectory::below(path).map_err(|error| {
            let message = format!(
                "{} is mounted over itself: unmount it first ({error})",
                path.display()
            );
            Failure::new(FailureKind::Busy, message)
        })?;
        let lower = Lower::at(&covered.path())?;
        Ok(Lower {
            path: path.to_owned(),
            _covered: Some(covered),
            ..lower
        })
    }

    /// A lower directory by a path that a user can change.
    fn named(path: &Path) -> Result<Lower> {
        Ok(Lower {
            path: path.to_owned(),
            dir: open_directory(path)?,
            _covered: None,
        })
    }

    /// A lower directory by its path.
    pub(super) fn at(path: &Path) -> Result<Lower> {
        let dir = Entry::root(path).map_err(|error| lower_failure(path, error))?;
        let path = path.to_owned();
        Ok(Lower {
            path,
            dir,
            _covered: None,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether there is a `.pefs.db`, or a `.pefs.conf` that says something.
    pub(super) fn is_pefs(&self) -> bool {
        let database = self.dir.entry(DATABASE_NAME.as_bytes());
        let link = self.dir.entry(CONFIG_NAME.as_bytes());
        database.is_ok() || link.and_then(|link| link.target()).is_ok()
    }

    /// The settings in `.pefs.conf`, if it is a link.
    pub(super) fn config(&self) -> Result<Config> {
        let link = self.dir.entry(CONFIG_NAME.as_bytes());
        match link.and_then(|link| link.target()) {
            Ok(target) => Config::decode(&target).map_err(|error| failure(&self.path, error)),
            Err(Error::NotFound | Error::Invalid) => Ok(Config::default()),
            Err(error) => Err(lower_failure(&self.path, error)),
        }
    }

    /// The algorithm of keys that neither an option nor a record says.
    pub(super) fn algorithm(&self) -> Result<Algorithm> {
        let path = self.path.canonicalize().unwrap_or_default();
        match StackedMount::of_lower(&path) {
            // Its keys count. One that does not answer may have some.
            Some(mounted) => Ok(default_algorithm(&mounted).unwrap_or_default()),
            None => pefs::default_algorithm(&self.dir, false)
                .map_err(|error| lower_failure(&self.path, error)),
        }
    }

    /// The key chains.
    pub(super) fn chains(&self) -> Result<Chains> {
        match self.dir.read_small(DATABASE_NAME.as_bytes(), DATABASE_MAX) {
            Ok(bytes) => Chains::decode(&bytes).map_err(|error| failure(&self.path, error)),
            Err(Error::NotFound) => {
                let block = self.dir.stat().map_or(4096, |stat| stat.stx_blksize);
                Ok(Chains::new(block as usize))
            }
            Err(error) => Err(lower_failure(&self.path, error)),
        }
    }

    /// Changes the key chains: whole, or not at all.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Chains) -> Result<T>) -> Result<T> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = self.dir.reopen(flags);
        let dir = dir.map_err(|error| lower_failure(&self.path, error))?;
        // One command after the other; the lock ends with the descriptor.
        let cannot = |error: io::Error| {
            Failure::new(
                FailureKind::Device,
                format!("{}/{DATABASE_NAME}: {error}", self.path.display()),
            )
        };
        rustix::fs::flock(&dir, FlockOperation::LockExclusive).map_err(|e| cannot(e.into()))?;
        let mut chains = self.chains()?;
        let changed = change(&mut chains)?;
        write(dir.as_fd(), &chains.encode()).map_err(cannot)?;
        Ok(changed)
    }
}

/// Replaces the file, durably. It belongs to the owner of the directory, and is for that user only.
fn write(dir: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let dir = dir.as_fd();
    match rustix::fs::unlinkat(dir, TEMPORARY, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file: File = rustix::fs::openat(dir, TEMPORARY, flags, Mode::RUSR | Mode::WUSR)?.into();
    let written = || -> io::Result<()> {
        let owner = rustix::fs::fstat(dir)?;
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
            rustix::fs::fchown(&file, Some(uid), Some(gid))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        rustix::fs::renameat(dir, TEMPORARY, dir, DATABASE_NAME)?;
        Ok(rustix::fs::fsync(dir)?)
    }();
    if written.is_err() {
        let _ = rustix::fs::unlinkat(dir, TEMPORARY, AtFlags::empty());
    }
    written
}

/// The algorithm of keys that neither an option nor a record says.
pub(super) fn default_algorithm(mounted: &StackedMount) -> Result<Algorithm> {
    if mounted.is_read_only() {
        return Ok(Algorithm::default());
    }
    let algorithm = match mounted.ask(&Request::DefaultAlgorithm, None)? {
        ControlAnswer::Algorithm(name) => Algorithm::from_name(&name),
        _ => None,
    };
    algorithm.ok_or_else(other_version)
}

/// The failure for an answer of a mount that is not understood.
pub(super) fn other_version() -> Failure {
    Failure::other("the process of the mount is of another version")
}

/// The mount at a place, if there is one.
fn mount_at(place: &Path) -> Option<ListedMount> {
    let path = place.canonicalize().ok()?;
    let mut mounts = fuse::listed(SUBTYPE).into_iter().rev();
    mounts.find(|mount| mount.path == path)
}

fn not_mounted(place: &Path) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!(
            "no encrypted directory is mounted on {}; with -f, name the lower directory",
            place.display()
        ),
    )
}

fn lower_failure(path: &Path, error: Error) -> Failure {
    let kind = match error {
        Error::NotFound => FailureKind::NotFound,
        Error::Access | Error::NotPermitted => FailureKind::Permission,
        _ => FailureKind::Device,
    };
    Failure::new(kind, format!("{}: {error}", path.display()))
}

/// The failure for an error of a key or a chain.
pub(super) fn failure(place: &Path, error: KeyError) -> Failure {
    let kind = match &error {
        KeyError::NoInput => FailureKind::Usage,
        KeyError::Config | KeyError::Database(_) | KeyError::Record | KeyError::Circle => {
            FailureKind::Damaged
        }
        KeyError::Random | KeyError::Cipher(_) | KeyError::Memory(_) => FailureKind::Other,
    };
    Failure::new(kind, format!("{}: {error}", place.display()))
}
