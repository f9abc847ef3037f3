//! Small files of a format's own, beside those of the view: its configuration, and what names are computed with.
//!
//! Without such a file, what was written and synced beside it could not be found. So the view's `fsync` brings
//! them to the disk too.

use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};
use vfs::{Error, Result};

use super::claim::NameLock;
use super::temporary;
use crate::lower::{self, Entry, list, posix, sync};

/// The longest file that is replaced, in bytes.
const REPLACED_MAX: usize = 64 << 10;

/// The most files that wait for an `fsync` by themselves. If there are more, it syncs the whole file system.
const UNSYNCED_MAX: usize = 64;

/// Files that may not be on the disk yet.
#[derive(Debug)]
pub(crate) struct UnsyncedFiles(Mutex<State>);

#[derive(Debug)]
struct State {
    files: Vec<OwnedFd>,
    /// True if there were more.
    too_many: bool,
    /// The lower directory. It is open all the time: `syncfs` tells it of all errors since then.
    root: OwnedFd,
    /// The error by which one of them may be lost. The kernel says so once, and the next sync would succeed.
    failed: Option<Error>,
}

impl UnsyncedFiles {
    /// An empty list of files below a lower directory.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn new(root: &Entry) -> Result<UnsyncedFiles> {
        Ok(UnsyncedFiles(Mutex::new(State {
            files: Vec::new(),
            too_many: false,
            root: root.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?,
            failed: None,
        })))
    }

    /// Keeps a file for the next sync.
    pub(crate) fn add(&self, file: OwnedFd) {
        let mut state = self.0.lock();
        state.too_many |= state.files.len() == UNSYNCED_MAX;
        match state.too_many {
            true => state.files.clear(),
            false => state.files.push(file),
        }
    }

    /// Brings all of them to the disk.
    ///
    /// # Errors
    /// Those of `fdatasync`, from the first one on for as long as the view is mounted.
    pub(crate) fn sync(&self) -> Result<()> {
        // No call returns while another one syncs the same files.
        self.0.lock().sync()
    }
}

impl State {
    fn sync(&mut self) -> Result<()> {
        let mut failed = None;
        if std::mem::take(&mut self.too_many) {
            failed = rustix::fs::syncfs(&self.root).err();
        }
        for file in self.files.drain(..) {
            failed = rustix::fs::fdatasync(file).err().or(failed);
        }
        self.failed = failed.map(posix).or(self.failed);
        self.failed.map_or(Ok(()), Err)
    }
}

/// Writes the files of a format into an empty directory, in this order. They are on the disk when this returns.
///
/// # Errors
/// `NotEmpty` if there is something in it; those of the lower directory.
pub fn prepare(root: &Entry, files: &[(&str, Vec<u8>)]) -> Result<()> {
    list(root, 0, |listed| match listed.name {
        b"." | b".." => Ok(true),
        _ => Err(Error::NotEmpty),
    })?;
    for (name, contents) in files {
        let file = write(root, name.as_bytes(), contents)?;
        rustix::fs::fdatasync(file).map_err(posix)?;
    }
    sync(root)
}

/// Writes a new file of a format beside what is there. It is on the disk when this returns.
///
/// # Errors
/// `Exists`; those of the lower directory.
pub fn add(root: &Entry, name: &str, contents: &[u8]) -> Result<()> {
    let _claim = NameLock::take(root)?;
    match root.entry(name.as_bytes()) {
        Ok(_) => return Err(Error::Exists),
        Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    lower::replace(root, &temporary::name(), name.as_bytes(), contents, None)
}

/// Replaces a file of a format, whole or not at all, if it still has these contents. It is on the disk when
/// this returns.
///
/// # Errors
/// `Busy` if it has others; those of the lower directory.
pub fn replace(root: &Entry, name: &str, old: &[u8], new: &[u8]) -> Result<()> {
    let _claim = NameLock::take(root)?;
    match root.read_small(name.as_bytes(), REPLACED_MAX) {
        Ok(found) if found == old => {
            lower::replace(root, &temporary::name(), name.as_bytes(), new, None)
        }
        Ok(_) | Err(Error::NotFound) => Err(Error::Busy),
        Err(error) => Err(error),
    }
}

/// Writes a small file, whole: under a temporary name first. It may not be on the disk when this returns.
///
/// # Errors
/// Those of the lower directory.
pub(crate) fn write(dir: &Entry, name: &[u8], contents: &[u8]) -> Result<OwnedFd> {
    let temporary = temporary::name();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = dir.open(&temporary, flags, mode)?;
    let written = rustix::io::pwrite(&file, contents, 0);
    let named = match written {
        Ok(len) if len == contents.len() => {
            rustix::fs::renameat(dir, &temporary[..], dir, name).map_err(posix)
        }
        Ok(_) => Err(Error::NoSpace),
        Err(error) => Err(posix(error)),
    };
    if named.is_err() {
        let _ = rustix::fs::unlinkat(dir, &temporary[..], AtFlags::empty());
    }
    named.map(|()| file)
}
