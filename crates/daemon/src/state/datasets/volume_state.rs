//! Open volumes.

use std::io::{Error as IoError, ErrorKind};

use block::{BlockDevice, SectorSizes};
use dataset::Volume;
use parking_lot::{RwLock, RwLockReadGuard};
use protocol::device_name::DeviceName;

/// An open volume. It can be taken away while it is in use. Then all requests fail. The leases of its pool name its
/// users.
pub(crate) struct VolumeInUse {
    pub(crate) name: String,
    pub(crate) sector_sizes: SectorSizes,
    volume: RwLock<Option<Volume>>,
}

impl VolumeInUse {
    pub(crate) fn new(volume: Volume) -> VolumeInUse {
        VolumeInUse {
            name: DeviceName::Volume(volume.dataset().name()).to_string(),
            sector_sizes: volume.sector_sizes(),
            volume: RwLock::new(Some(volume)),
        }
    }

    /// The volume; `None` after it was taken away. It cannot be taken away while this is held.
    pub(crate) fn volume(&self) -> RwLockReadGuard<'_, Option<Volume>> {
        self.volume.read()
    }

    pub(crate) fn with<T>(
        &self,
        operation: &'static str,
        (offset, len): (u64, u64),
        ask: impl FnOnce(&Volume) -> block::Result<T>,
    ) -> block::Result<T> {
        match self.volume().as_ref() {
            Some(volume) => ask(volume),
            None => Err(block::Error::Io {
                device: self.name.clone(),
                operation,
                offset,
                len,
                source: IoError::new(ErrorKind::NotConnected, "the volume was taken out of use"),
            }),
        }
    }

    /// Waits for running requests, makes everything durable, and closes the volume.
    pub(crate) fn take_away(&self) {
        let Some(volume) = self.volume.write().take() else {
            return;
        };
        if let Err(error) = volume.close() {
            let dataset = volume.dataset().name();
            tracing::error!(%error, dataset, "closing a volume failed; what was not flushed is lost. 'strongroom pool status' says more");
        }
    }
}
