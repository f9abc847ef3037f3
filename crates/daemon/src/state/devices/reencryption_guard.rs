//! The guard on a re-encryption that is not complete: no other program continues it below a mapping. Other programs read
//! the header meanwhile.

use std::sync::Arc;
use std::time::Duration;

use block::{FileDevice, FileLock};
use luks::ReencryptionLock;

use crate::failure::Result;

/// The guard on a re-encryption.
pub(crate) enum ReencryptionGuard {
    /// The lock that cryptsetup takes too.
    Named { _lock: ReencryptionLock },
    /// The file of the header, for a user who cannot reach the locks of cryptsetup.
    File(FileLock),
}

impl ReencryptionGuard {
    /// The lock of cryptsetup for the container of this UUID, if this user can take it.
    ///
    /// # Errors
    /// [`luks::Error::Busy`] if another program has it.
    pub(crate) fn named(uuid: &str) -> Result<Option<ReencryptionGuard>> {
        let lock = ReencryptionLock::take(uuid)?;
        Ok(lock.map(|_lock| ReencryptionGuard::Named { _lock }))
    }

    /// The guard on the container of this UUID, whose header is in this file. The file may be locked until now, and
    /// `locked` is given back.
    ///
    /// # Errors
    /// As for [`ReencryptionGuard::named`]; the failure of the system.
    pub(crate) fn take(
        uuid: &str,
        file: Option<&Arc<FileDevice>>,
        locked: Option<FileLock>,
    ) -> Result<Option<ReencryptionGuard>> {
        let named = ReencryptionGuard::named(uuid)?;
        drop(locked);
        match (named, file) {
            (None, Some(file)) => {
                let shared = file.share(Duration::ZERO)?;
                Ok(Some(ReencryptionGuard::File(shared)))
            }
            (named, _) => Ok(named),
        }
    }

    /// Returns whether the file needs no lock.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self, ReencryptionGuard::Named { .. })
    }

    /// The guard while nothing is written: other programs may read the file.
    pub(crate) fn at_rest(self, file: Option<&Arc<FileDevice>>) -> Option<ReencryptionGuard> {
        match (self, file) {
            (ReencryptionGuard::File(lock), Some(file)) => {
                drop(lock);
                let shared = file.share(Duration::ZERO).ok()?;
                Some(ReencryptionGuard::File(shared))
            }
            (guard, _) => Some(guard),
        }
    }
}
