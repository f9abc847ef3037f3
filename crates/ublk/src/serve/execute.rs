//! Carries requests out.

use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use block::BlockDevice;
use meter::LogCount;
use rustix::io::Errno;

use crate::wire::abi::{RequestDescriptor, SECTOR, operation};

/// Discards and zeroing are carried out in parts of so many bytes, and end when the device is cut off.
const PART: u64 = 64 << 20;
/// A device that takes longer for a request, beyond a nanosecond for each byte, is slow.
const SLOW: Duration = Duration::from_micros(100);
/// The time of one request counts up to this, in nanoseconds. A request that had to wait long says little of others.
const EXCESS_MAX: u64 = 16 * SLOW.as_nanos() as u64;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Flush,
    Discard,
    /// Zeroing; with `true` the range keeps its space.
    Zero(bool),
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelRequest {
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// True if the change is durable when the request is answered.
    pub(crate) is_durable: bool,
}

impl KernelRequest {
    /// Reads what the driver describes; `None` if this crate does not know it.
    pub(crate) fn parse(described: &RequestDescriptor) -> Option<KernelRequest> {
        let has = |flag| described.operation & flag != 0;
        let operation = match described.operation & operation::MASK {
            operation::READ => Operation::Read,
            operation::WRITE => Operation::Write,
            operation::FLUSH => Operation::Flush,
            operation::DISCARD => Operation::Discard,
            operation::WRITE_ZEROES => Operation::Zero(has(operation::NO_UNMAP)),
            _ => return None,
        };
        // A flush is about no range, and the driver says none.
        let (start, sectors) = match operation {
            Operation::Flush => (0, 0),
            _ => (described.start, described.sectors),
        };
        Some(KernelRequest {
            operation,
            offset: start.checked_mul(SECTOR)?,
            len: u64::from(sectors) * SECTOR,
            is_durable: has(operation::FUA),
        })
    }

    fn changes(&self) -> bool {
        !matches!(self.operation, Operation::Read | Operation::Flush)
    }
}

/// The mean time that requests lately took beyond what their size explains, in nanoseconds.
#[derive(Debug, Default)]
struct RequestPace(AtomicU64);

impl RequestPace {
    fn is_slow(&self) -> bool {
        Duration::from_nanos(self.0.load(Relaxed)) > SLOW
    }

    fn note(&self, took: Duration, len: u64) {
        let excess = (took.as_nanos() as u64).saturating_sub(len).min(EXCESS_MAX);
        let before = self.0.load(Relaxed);
        self.0.store(before - before / 8 + excess / 8, Relaxed);
    }
}

/// Carries out the requests for a device. All queues share it.
pub(crate) struct RequestExecutor {
    device: Arc<dyn BlockDevice>,
    is_read_only: bool,
    reads: RequestPace,
    writes: RequestPace,
    failures: LogCount,
}

impl RequestExecutor {
    pub(crate) fn new(device: Arc<dyn BlockDevice>, is_read_only: bool) -> RequestExecutor {
        RequestExecutor {
            device,
            is_read_only,
            reads: RequestPace::default(),
            writes: RequestPace::default(),
            failures: LogCount::default(),
        }
    }

    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Returns whether a request is long: other requests of the queue would wait for it.
    pub(crate) fn is_long(&self, request: &KernelRequest) -> bool {
        let is_write = request.operation == Operation::Write;
        let pace = match request.operation {
            Operation::Read => &self.reads,
            Operation::Write if !request.is_durable => &self.writes,
            _ => return true,
        };
        let KernelRequest { offset, len, .. } = *request;
        pace.is_slow() || self.device.would_wait(offset, len, is_write)
    }

    /// Returns whether the answer has to wait for [`RequestExecutor::settle`].
    pub(crate) fn needs_settling(request: &KernelRequest, answer: i32) -> bool {
        answer >= 0 && request.changes() && !request.is_durable
    }

    /// Makes the changes that have returned outlive this process. Returns whether that is so.
    pub(crate) fn settle(&self, changes: usize) -> bool {
        let begin = Instant::now();
        let settled = self.guarded(|| self.device.settle()).is_ok();
        let count = u32::try_from(changes).unwrap_or(u32::MAX).max(1);
        self.writes.note(begin.elapsed() / count, 0);
        settled
    }

    /// Carries a request out. `buffer` has what is written, and gets what is read. Returns the answer for the driver:
    /// the number of bytes, or the negative number of an error.
    pub(crate) fn carry_out(
        &self,
        request: &KernelRequest,
        buffer: &mut [u8],
        is_cut: impl Fn() -> bool,
    ) -> i32 {
        match self.guarded(|| self.execute(request, buffer, &is_cut)) {
            Ok(()) => request.len as i32,
            Err(errno) => -errno.raw_os_error(),
        }
    }

    fn execute(
        &self,
        request: &KernelRequest,
        buffer: &mut [u8],
        is_cut: &dyn Fn() -> bool,
    ) -> block::Result<()> {
        let KernelRequest { offset, len, .. } = *request;
        if request.changes() && self.is_read_only {
            let device = self.device.name();
            return Err(block::Error::ReadOnly { device });
        }
        let begin = Instant::now();
        let end = offset.saturating_add(len);
        if end > self.device.size() {
            return Err(self.outside(request));
        }
        match request.operation {
            Operation::Read | Operation::Write => {
                let piece = usize::try_from(len).ok();
                let Some(data) = piece.and_then(|len| buffer.get_mut(..len)) else {
                    return Err(self.outside(request));
                };
                match (request.operation, request.is_durable) {
                    (Operation::Read, _) => {
                        self.device.read_at(offset, data)?;
                        self.reads.note(begin.elapsed(), len);
                    }
                    (_, true) => self
                        .device
                        .write_durably_at(offset, &[IoSlice::new(data)])?,
                    (_, false) => {
                        self.device.write_in_place(offset, data)?;
                        self.writes.note(begin.elapsed(), len);
                    }
                }
                Ok(())
            }
            Operation::Flush if self.is_read_only => Ok(()),
            Operation::Flush => self.device.flush(),
            Operation::Discard => {
                self.in_parts(request, is_cut, |at, len| self.device.discard(at, len))
            }
            Operation::Zero(true) => {
                self.in_parts(request, is_cut, |at, len| self.device.overwrite(at, len))
            }
            Operation::Zero(false) => {
                self.in_parts(request, is_cut, |at, len| self.device.zero(at, len))
            }
        }
    }

    /// Carries a request out in parts, until the device is cut off.
    fn in_parts(
        &self,
        request: &KernelRequest,
        is_cut: &dyn Fn() -> bool,
        act: impl Fn(u64, u64) -> block::Result<()>,
    ) -> block::Result<()> {
        let (mut at, end) = (request.offset, request.offset + request.len);
        while at < end && !is_cut() {
            // No boundary of parts is within a block of a volume, also if the request begins within one.
            let len = (PART - at % PART).min(end - at);
            act(at, len)?;
            at += len;
        }
        match request.is_durable {
            true => self.device.flush(),
            false => Ok(()),
        }
    }

    fn outside(&self, request: &KernelRequest) -> block::Error {
        block::Error::OutOfRange {
            device: self.device.name(),
            offset: request.offset,
            len: request.len,
            size: self.device.size(),
        }
    }

    /// The number of the error of a device, of which the log has more. A fault of this program fails one request, and not
    /// the queue.
    fn guarded(&self, act: impl FnOnce() -> block::Result<()>) -> Result<(), Errno> {
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(act)) else {
            let device = self.device.name();
            tracing::error!(device, "a request made this program fail");
            return Err(Errno::IO);
        };
        outcome.map_err(|error| {
            if let Some(failures) = self.failures.next_line() {
                let device = self.device.name();
                tracing::warn!(device, %error, failures, "a request failed");
            }
            match &error {
                _ if error.is_no_space() => Errno::NOSPC,
                block::Error::ReadOnly { .. } => Errno::PERM,
                _ => Errno::IO,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use block::MemoryDevice;

    use super::*;

    fn described(operation: u32, start: u64, sectors: u32) -> RequestDescriptor {
        RequestDescriptor {
            operation,
            sectors,
            start,
            address: 0,
        }
    }

    fn answered(executor: &RequestExecutor, request: &RequestDescriptor, buffer: &mut [u8]) -> i32 {
        let request = KernelRequest::parse(request).unwrap();
        executor.carry_out(&request, buffer, || false)
    }

    #[test]
    fn requests_are_carried_out() {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let executor = RequestExecutor::new(device, false);
        let mut buffer = vec![7; 8192];
        let write = described(operation::WRITE | operation::FUA, 8, 8);
        assert_eq!(answered(&executor, &write, &mut buffer), 4096);
        // The driver leaves the place of a flush undefined.
        let flush = described(operation::FLUSH, u64::MAX, 0);
        assert_eq!(answered(&executor, &flush, &mut buffer), 0);
        let zero = described(operation::WRITE_ZEROES | operation::NO_UNMAP, 12, 2);
        assert!(answered(&executor, &zero, &mut buffer) >= 0);
        buffer.fill(1);
        let read = described(operation::READ, 8, 16);
        assert_eq!(answered(&executor, &read, &mut buffer), 8192);
        let expected = [vec![7; 2048], vec![0; 1024], vec![7; 1024], vec![0; 4096]].concat();
        assert!(buffer == expected);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let executor = RequestExecutor::new(device, true);
        let mut buffer = vec![0; 4096];
        let outside = described(operation::READ, 2047, 2);
        assert!(answered(&executor, &outside, &mut buffer) < 0);
        let too_long = described(operation::READ, 0, 16);
        assert!(answered(&executor, &too_long, &mut buffer) < 0);
        let write = described(operation::WRITE, 0, 8);
        let refusal = answered(&executor, &write, &mut buffer);
        assert_eq!(refusal, -Errno::PERM.raw_os_error());
        assert_eq!(KernelRequest::parse(&described(18, 0, 1)), None);
        assert_eq!(
            KernelRequest::parse(&described(operation::READ, u64::MAX, 1)),
            None
        );
    }
}
