//! A device that does not answer while its gate is closed, for tests.

use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::{BlockDevice, Result};

/// Holds up the requests of a device while it is closed.
#[derive(Default)]
pub struct DeviceGate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl DeviceGate {
    /// From now on nothing is answered.
    pub fn close(&self) {
        *self.lock() = true;
    }

    /// Lets requests go on.
    pub fn open(&self) {
        *self.lock() = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut is_closed = self.lock();
        while *is_closed {
            let waited = self.changed.wait(is_closed);
            is_closed = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        let locked = self.is_closed.lock();
        locked.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A device behind a gate. Its callers know that its writes wait.
pub struct GatedDevice<D> {
    device: Arc<D>,
    gate: Arc<DeviceGate>,
}

impl<D: BlockDevice> GatedDevice<D> {
    /// Puts a gate, which is open, before a device.
    pub fn new(device: &Arc<D>) -> (GatedDevice<D>, Arc<DeviceGate>) {
        let (device, gate) = (Arc::clone(device), Arc::new(DeviceGate::default()));
        let of_tests = Arc::clone(&gate);
        (GatedDevice { device, gate }, of_tests)
    }
}

impl<D: BlockDevice> BlockDevice for GatedDevice<D> {
    delegate!(self => self.device; size refresh_size sector_sizes name drop_cached begin_anew io_mode settle);
    plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn waits_on_write(&self) -> bool {
        true
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.gate.pass();
        self.device.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.gate.pass();
        self.device.write_at(offset, pieces)
    }

    fn flush(&self) -> Result<()> {
        self.gate.pass();
        self.device.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.gate.pass();
        self.device.discard(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.gate.pass();
        self.device.zero(offset, len)
    }
}
