//! The retention that a device shows, before a command erases the device.

use crate::engine::devices::membership::is_certain_past;
use crate::error::{Error, Result};
use crate::format::superblock::root::{PoolRoot, PoolState};
use crate::ops::pool::Pool;

/// The retention of a pool, as the newest superblock of one device has it. The pool may have features that this program
/// does not know.
#[derive(Debug)]
pub struct DeviceRetention {
    txg: u64,
    root: PoolRoot,
}

impl DeviceRetention {
    /// Reads the payload of a superblock.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if it is not a superblock's payload.
    pub fn read(txg: u64, payload: &[u8]) -> Result<DeviceRetention> {
        let root = PoolRoot::read(payload)?;
        Ok(DeviceRetention { txg, root })
    }

    /// Refuses to erase the device before the end of all retentions of its pool.
    ///
    /// # Errors
    /// [`Error::Retained`].
    pub fn check_ended(&self, device: &str) -> Result<()> {
        let (until, time) = (self.root.retained_until.get(), self.root.pool_time.get());
        if until <= time || self.root.state() == Some(PoolState::Destroyed) {
            return Ok(());
        }
        let name = format!("{device}: the pool '{}'", self.root.name());
        Err(Error::Retained { name, until, time })
    }
}

impl Pool {
    /// Returns whether the pool certainly went on from the state on a device, so that it has the retained snapshots of
    /// this state. A copy of the pool does not have those that were retained later.
    pub fn went_on_from(&self, device: &DeviceRetention) -> bool {
        let state = self.engine.state.read();
        let (guid, txg) = (device.root.epoch.get(), device.txg);
        is_certain_past(&state.config.epochs, guid, txg, state.txg)
            && state.root.retained_until.get() >= device.root.retained_until.get()
    }
}
