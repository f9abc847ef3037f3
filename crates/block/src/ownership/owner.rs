//! Owners of files that let other programs lock them now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ownership::lock::{share_flock, take_flock, unlock};
use crate::{Error, FileDevice, Result};

/// The interval between attempts at a lock that other processes have.
const STEP: Duration = Duration::from_millis(20);

/// A file that other programs do not lock meanwhile.
pub struct FileLock {
    device: Arc<FileDevice>,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.device.let_others_lock();
    }
}

impl FileDevice {
    /// Lets other programs lock the file for a moment; it keeps its owner. Without locks of owners in the
    /// file system nothing is given back.
    pub fn let_others_lock(&self) {
        if self.is_owned {
            unlock(&self.file);
        }
    }

    /// Keeps other programs from locking the file again. Waits for those that have locked it.
    ///
    /// # Errors
    /// [`Error::Busy`] if one has it for longer than `limit`; the failure of the system.
    pub fn lock(self: &Arc<Self>, limit: Duration) -> Result<FileLock> {
        self.locked(limit, || take_flock(&self.file, self.path()))
    }

    /// Keeps other programs from changing the file; they may read it. Otherwise as [`FileDevice::lock`].
    ///
    /// # Errors
    /// As for [`FileDevice::lock`].
    pub fn share(self: &Arc<Self>, limit: Duration) -> Result<FileLock> {
        self.locked(limit, || share_flock(&self.file, self.path()))
    }

    fn locked(
        self: &Arc<Self>,
        limit: Duration,
        take: impl Fn() -> Result<()>,
    ) -> Result<FileLock> {
        let begun = Instant::now();
        loop {
            match take() {
                Err(Error::Busy { .. }) if begun.elapsed() < limit => std::thread::sleep(STEP),
                locked => {
                    let device = Arc::clone(self);
                    return locked.map(|()| FileLock { device });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::DeviceAccess;

    #[test]
    fn an_owner_stays_one_while_others_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let device = Arc::new(FileDevice::create(&path, 4096).unwrap());
        let other = File::open(&path).unwrap();
        assert!(take_flock(&other, &path).is_err());
        device.let_others_lock();
        take_flock(&other, &path).unwrap();
        let refused = || {
            FileDevice::open(&path, DeviceAccess::Exclusive)
                .err()
                .unwrap()
        };
        assert!(matches!(refused(), Error::Busy { .. }));
        assert!(matches!(device.lock(STEP), Err(Error::Busy { .. })));
        unlock(&other);
        // Without the lock of programs the owner is known as well.
        let own = format!("in use by process {} (", std::process::id());
        assert!(refused().to_string().contains(&own), "{}", refused());
        let lock = device.lock(STEP).unwrap();
        assert!(take_flock(&other, &path).is_err());
        drop(lock);
        let lock = device.share(STEP).unwrap();
        other.lock_shared().unwrap();
        assert!(take_flock(&other, &path).is_err());
        drop(lock);
        take_flock(&other, &path).unwrap();
        drop((other, device));
        FileDevice::open(&path, DeviceAccess::Exclusive).unwrap();
    }
}
