//! A device around another one that counts its operations.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use meter::OperationMeter;

use crate::{BlockDevice, Result, total};

/// Counts of the operations on a device.
#[derive(Debug, Default)]
pub struct DeviceMeter {
    /// Reads, and bytes read.
    pub read: OperationMeter,
    /// Writes, zeroing and overwriting among them, and bytes written.
    pub write: OperationMeter,
    /// Flushes.
    pub flush: OperationMeter,
    /// Discards, and bytes that were discarded.
    pub discard: OperationMeter,
    waiting: OpenOperations,
    /// Flushes and durable writes. The cache of the kernel can answer others for a device that is gone.
    durable: OpenOperations,
}

impl DeviceMeter {
    /// For how long operations have waited of which the device has answered none; a flush waits on, whatever the
    /// cache of the kernel answers. None if it answered all.
    pub fn silence(&self) -> Option<Duration> {
        self.waiting.silence().max(self.durable.silence())
    }
}

/// Times are counted from then.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Operations that the device has not answered.
#[derive(Debug, Default)]
struct OpenOperations {
    count: AtomicUsize,
    /// The time of the last answer, or of the beginning of the first operation, in nanoseconds.
    last: AtomicU64,
}

impl OpenOperations {
    fn note(&self) {
        self.last.store(BEGIN.elapsed().as_nanos() as u64, SeqCst);
    }

    fn begin(&self) -> OperationEnd<'_> {
        if self.count.load(SeqCst) == 0 {
            self.note();
        }
        self.count.fetch_add(1, SeqCst);
        OperationEnd(self)
    }

    fn silence(&self) -> Option<Duration> {
        if self.count.load(SeqCst) == 0 {
            return None;
        }
        let last = Duration::from_nanos(self.last.load(SeqCst));
        Some(BEGIN.elapsed().saturating_sub(last))
    }
}

/// Notes the answer to an operation when it is dropped.
struct OperationEnd<'a>(&'a OpenOperations);

impl Drop for OperationEnd<'_> {
    fn drop(&mut self) {
        self.0.note();
        self.0.count.fetch_sub(1, SeqCst);
    }
}

/// A device whose operations are counted.
pub struct MeteredDevice<D> {
    device: D,
    meter: Arc<DeviceMeter>,
}

impl<D: BlockDevice> MeteredDevice<D> {
    /// Counts in `meter` what is done to `device` through this.
    pub fn new(device: D, meter: Arc<DeviceMeter>) -> MeteredDevice<D> {
        MeteredDevice { device, meter }
    }
}

fn counted<T>(
    operation: &OperationMeter,
    bytes: u64,
    act: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let begin = Instant::now();
    let result = act();
    match &result {
        Ok(_) => operation.done(begin.elapsed(), bytes),
        Err(_) => operation.failed(begin.elapsed()),
    }
    result
}

impl<D: BlockDevice> MeteredDevice<D> {
    /// Counts an operation that does not take long on a device that works.
    fn awaited<T>(
        &self,
        operation: &OperationMeter,
        bytes: u64,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _answer = self.meter.waiting.begin();
        counted(operation, bytes, act)
    }
}

impl<D: BlockDevice> BlockDevice for MeteredDevice<D> {
    delegate!(self => self.device; size sector_sizes name claim check_unreserved status_at is_blank waits_on_write would_wait io_mode settle);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.awaited(&self.meter.read, len, || self.device.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let write = || self.device.write_at(offset, pieces);
        self.awaited(&self.meter.write, total(pieces), write)
    }

    fn write_durably_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let _answer = self.meter.durable.begin();
        let write = || self.device.write_durably_at(offset, pieces);
        self.awaited(&self.meter.write, total(pieces), write)
    }

    fn write_in_place(&self, offset: u64, data: &mut [u8]) -> Result<()> {
        let len = data.len() as u64;
        let write = || self.device.write_in_place(offset, data);
        self.awaited(&self.meter.write, len, write)
    }

    fn flush(&self) -> Result<()> {
        let _answer = self.meter.durable.begin();
        self.awaited(&self.meter.flush, 0, || self.device.flush())
    }

    fn drop_cached(&self) -> Result<()> {
        self.device.drop_cached()
    }

    fn begin_anew(&self) -> Result<()> {
        self.awaited(&self.meter.flush, 0, || self.device.begin_anew())
    }

    fn refresh_size(&self) -> Result<u64> {
        let _answer = self.meter.waiting.begin();
        self.device.refresh_size()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let discard = || self.device.discard(offset, len);
        counted(&self.meter.discard, len, discard)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        counted(&self.meter.write, len, || self.device.zero(offset, len))
    }

    fn zero_fast(&self, offset: u64, len: u64) -> Result<bool> {
        counted(&self.meter.write, len, || {
            self.device.zero_fast(offset, len)
        })
    }

    fn overwrite(&self, offset: u64, len: u64) -> Result<()> {
        let overwrite = || self.device.overwrite(offset, len);
        counted(&self.meter.write, len, overwrite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::fault::{Fault, FaultClock, FaultDevice};

    #[test]
    fn what_is_done_and_what_fails_is_counted() {
        let device = FaultDevice::new(1 << 20, &FaultClock::new());
        device.inject(Fault::BadBytes {
            offset: 8192,
            len: 1,
        });
        let meter = Arc::new(DeviceMeter::default());
        let device = MeteredDevice::new(device, Arc::clone(&meter));
        let mut buf = [0; 4096];
        device.read_at(0, &mut buf).unwrap();
        device.read_at(8192, &mut buf).unwrap_err();
        let pieces = [IoSlice::new(&[1; 512]), IoSlice::new(&[2; 512])];
        device.write_at(0, &pieces).unwrap();
        device.write_in_place(0, &mut [3; 512]).unwrap();
        device.overwrite(0, 3 << 10).unwrap();
        device.zero(0, 1 << 10).unwrap();
        device.flush().unwrap();
        device.discard(4096, 8192).unwrap();

        let counts = |operation: &OperationMeter| {
            let totals = operation.totals();
            (totals.times.count(), totals.bytes, totals.errors)
        };
        assert_eq!(counts(&meter.read), (2, 4096, 1));
        assert_eq!(counts(&meter.write), (4, 5632, 0));
        assert_eq!(counts(&meter.flush), (1, 0, 0));
        assert_eq!(counts(&meter.discard), (1, 8192, 0));
        assert_eq!(device.size(), 1 << 20);
        assert_eq!(device.name(), "fault device");
    }

    #[test]
    fn a_device_that_does_not_answer_is_silent() {
        let meter = DeviceMeter::default();
        assert_eq!(meter.silence(), None);
        let first = meter.waiting.begin();
        let before = meter.waiting.last.load(SeqCst);
        let second = meter.waiting.begin();
        assert_eq!(meter.waiting.last.load(SeqCst), before);
        assert!(meter.silence().is_some());
        // The answer to one counts for the others.
        drop(second);
        assert!(meter.waiting.last.load(SeqCst) >= before);
        assert!(meter.silence().is_some());
        drop(first);
        assert_eq!(meter.silence(), None);
        // Answers from a cache say nothing of a flush.
        let flush = meter.durable.begin();
        let before = meter.durable.last.load(SeqCst);
        drop(meter.waiting.begin());
        assert_eq!(meter.durable.last.load(SeqCst), before);
        assert!(meter.silence().is_some());
        drop(flush);
        assert_eq!(meter.silence(), None);
    }
}
