//! The state of a pool on an object store that this host reads while another one may write.

use std::path::PathBuf;
use std::sync::Arc;

use objects::ObjectDevice;
use parking_lot::Mutex;

use crate::host::process::system::now_secs;

/// The device of a pool that is read in one state.
pub(crate) struct StoreReader {
    /// The address of the device.
    pub(crate) path: PathBuf,
    pub(crate) device: Arc<ObjectDevice>,
    /// The seconds between refreshes, 0 for none.
    pub(crate) interval: u64,
    /// Held while a newer state is read.
    pub(crate) refreshing: Mutex<()>,
    /// The time when it was the newest state.
    checked: Mutex<u64>,
}

impl StoreReader {
    /// A state that was read now.
    pub(crate) fn new(path: PathBuf, device: Arc<ObjectDevice>, interval: u64) -> StoreReader {
        StoreReader {
            path,
            device,
            interval,
            refreshing: Mutex::default(),
            checked: Mutex::new(now_secs()),
        }
    }

    /// The time when it was the newest state, as far as is known, in seconds since 1970.
    pub(crate) fn checked(&self) -> u64 {
        *self.checked.lock()
    }

    /// Notes that this is the newest state now.
    pub(crate) fn note_newest(&self) {
        *self.checked.lock() = now_secs();
    }
}
