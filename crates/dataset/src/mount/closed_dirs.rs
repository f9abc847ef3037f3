//! Directories of a mounted dataset in which other datasets are to be mounted: nothing is made there, and they stay
//! where they are. Nothing is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use parking_lot::{Mutex, RwLock};
use vfs::{Error, FileSystem, Ino, Kind, ROOT, Result};

use crate::core::Dataset;

/// Says whether a directory is still closed.
pub type ClosedCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// The closed directories of a dataset.
#[derive(Default)]
pub(crate) struct ClosedDirs {
    /// The number of an inode is never used again.
    dirs: RwLock<BTreeMap<Ino, ClosedCheck>>,
    /// Names that the owner of the dataset itself makes or removes.
    own: Mutex<BTreeSet<(Ino, Vec<u8>)>>,
}

impl ClosedDirs {
    pub(crate) fn close(&self, files: &Dataset, path: &Path, is_closed: ClosedCheck) -> Result<()> {
        let mut ino = ROOT;
        for name in path {
            ino = directory(files, ino, name.as_bytes())?;
        }
        self.dirs.write().insert(ino, is_closed);
        Ok(())
    }

    /// Does something that makes or removes the directory at a path.
    pub(crate) fn except<T>(&self, files: &Dataset, path: &Path, change: impl FnOnce() -> T) -> T {
        let mut spot = None;
        let mut parent = ROOT;
        for name in path {
            spot = Some((parent, name.as_bytes().to_vec()));
            match directory(files, parent, name.as_bytes()) {
                Ok(ino) => parent = ino,
                // The directories below it are made in open ones.
                Err(_) => break,
            }
        }
        let Some(spot) = spot else { return change() };
        self.own.lock().insert(spot.clone());
        let done = change();
        self.own.lock().remove(&spot);
        done
    }

    /// Refuses a new name in a closed directory.
    pub(crate) fn refuse_new(&self, parent: Ino) -> Result<()> {
        match self.is_closed(parent) {
            true => Err(Error::NotPermitted),
            false => Ok(()),
        }
    }

    /// Does the same as [`ClosedDirs::refuse_new`], for a directory.
    pub(crate) fn refuse_new_dir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.refuse_new(parent)
            .or_else(|error| match self.is_own(parent, name) {
                true => Ok(()),
                false => Err(error),
            })
    }

    /// Refuses to take a name from a closed directory, as the kernel does where something is mounted.
    pub(crate) fn refuse_loss(&self, files: &Dataset, parent: Ino, name: &[u8]) -> Result<()> {
        if self.dirs.read().is_empty() || self.is_own(parent, name) {
            return Ok(());
        }
        match directory(files, parent, name) {
            Ok(ino) if self.is_closed(ino) => Err(Error::Busy),
            // What is wrong with the name is said by the operation itself.
            _ => Ok(()),
        }
    }

    fn is_own(&self, parent: Ino, name: &[u8]) -> bool {
        self.own.lock().contains(&(parent, name.to_vec()))
    }

    fn is_closed(&self, ino: Ino) -> bool {
        let dirs = self.dirs.read();
        dirs.get(&ino).is_some_and(|is_closed| is_closed())
    }
}

/// The inode of a directory by its name.
fn directory(files: &Dataset, parent: Ino, name: &[u8]) -> Result<Ino> {
    let found = files.lookup(parent, name)?;
    files.forget(found.ino, 1);
    match found.kind {
        Kind::Directory => Ok(found.ino),
        _ => Err(Error::NotDirectory),
    }
}
