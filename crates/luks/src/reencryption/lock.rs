//! The lock of a re-encryption, which cryptsetup takes too. While one program has it, no other one changes the data
//! of the container. Everybody may read the header meanwhile.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The folder of the locks of cryptsetup. Only root can use them.
const DIR: &str = "/run/cryptsetup";

/// The lock of a re-encryption. It is given back when this is dropped.
#[derive(Debug)]
pub struct ReencryptionLock {
    path: PathBuf,
    file: File,
}

impl Drop for ReencryptionLock {
    fn drop(&mut self) {
        // A program that waits for this file finds out that it has no name any more, and makes another one.
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl ReencryptionLock {
    /// Takes the lock of the container with this UUID. None for a user who cannot reach the locks of cryptsetup:
    /// cryptsetup re-encrypts nothing for such a user.
    ///
    /// # Errors
    /// [`Error::Busy`] if another program has it.
    pub fn take(uuid: &str) -> Result<Option<ReencryptionLock>> {
        ReencryptionLock::take_in(Path::new(DIR), uuid)
    }

    fn take_in(dir: &Path, uuid: &str) -> Result<Option<ReencryptionLock>> {
        let is_name = uuid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_name || !is_private(dir) {
            return Ok(None);
        }
        let path = dir.join(format!("LN_LUKS2-reencryption-{uuid}"));
        loop {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            let Ok(file) = options.mode(0o600).open(&path) else {
                return Ok(None);
            };
            match file.try_lock() {
                // The one that had it may have removed the file.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) => return Ok(Some(ReencryptionLock { path, file })),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::Busy(format!(
                        "another program re-encrypts the container {uuid}, or has it open meanwhile"
                    )));
                }
                Err(TryLockError::Error(_)) => return Ok(None),
            }
        }
    }
}

/// Makes the directory, and says whether only this user can put something into it.
fn is_private(dir: &Path) -> bool {
    // If it cannot be made, it is not found either, or is there already.
    let _ = DirBuilder::new().mode(0o700).create(dir);
    // A file of this process belongs to the user that it runs as.
    let user = std::fs::metadata("/proc/self").map(|own| own.uid());
    let found = std::fs::symlink_metadata(dir);
    found.is_ok_and(|found| {
        found.is_dir() && found.mode() & 0o022 == 0 && user.is_ok_and(|user| user == found.uid())
    })
}

/// Returns whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let inode = |found: io::Result<std::fs::Metadata>| found.map(|it| (it.dev(), it.ino())).ok();
    let open = inode(file.metadata());
    open.is_some() && open == inode(std::fs::symlink_metadata(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "5ae2903e-22b6-43a2-b884-f5e9640ee47b";

    #[test]
    fn one_program_has_it_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let take = || ReencryptionLock::take_in(&dir.path().join("locks"), UUID);
        let lock = take().unwrap().unwrap();
        assert!(matches!(take(), Err(Error::Busy(_))));
        drop(lock);
        let again = take().unwrap().unwrap();
        // As one that waited for the file that was removed.
        let left = std::fs::read_dir(dir.path().join("locks")).unwrap().count();
        assert_eq!(left, 1);
        drop(again);
        assert!(take().unwrap().is_some());
    }

    #[test]
    fn names_that_lead_elsewhere_and_directories_of_others_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let locks = dir.path().join("locks");
        for uuid in ["../x", "a/b", "a\0b"] {
            assert!(ReencryptionLock::take_in(&locks, uuid).unwrap().is_none());
        }
        std::os::unix::fs::symlink("/nowhere", &locks).unwrap();
        assert!(ReencryptionLock::take_in(&locks, UUID).unwrap().is_none());
    }
}
