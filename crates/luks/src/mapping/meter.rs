//! Counts the requests of a mapping.
//!
//! A small request inline takes less than a microsecond. Looking at the clock before and after it would take a tenth
//! of that. So every request is counted, but only one in [`TIMED`] is timed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use meter::{Histogram, Times};

/// The interval between timed requests of a form; the first one is timed. It is prime, so that requests in a pattern
/// are not always timed at the same step of it.
const TIMED: u64 = 11;

/// The requests that a mapping has served, by form.
#[derive(Debug, Default)]
pub struct MappingMeter {
    /// Reads on the thread that asked.
    pub read_inline: RequestMeter,
    /// Reads by the pool of threads.
    pub read_queued: RequestMeter,
    /// Writes on the thread that asked.
    pub write_inline: RequestMeter,
    /// Writes by the pool of threads.
    pub write_queued: RequestMeter,
}

/// The requests that were served in one form. The meter has cache lines of its own, so that counting one form does not
/// slow down another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RequestMeter {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    times: Histogram,
}

/// The sums of a [`RequestMeter`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    /// Requests that were begun, with those that failed.
    pub requests: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// The number of requests that failed.
    pub errors: u64,
    /// The times of the requests that were timed.
    pub times: Times,
}

impl RequestMeter {
    /// Counts a request of `len` bytes, and serves it.
    pub(super) fn count(
        &self,
        len: usize,
        serve: impl FnOnce() -> block::Result<()>,
    ) -> block::Result<()> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let begin = number.is_multiple_of(TIMED).then(Instant::now);
        let served = serve();
        if let Some(begin) = begin {
            self.times.record(begin.elapsed());
        }
        match &served {
            Ok(()) => self.bytes.fetch_add(len as u64, Ordering::Relaxed),
            Err(_) => self.errors.fetch_add(1, Ordering::Relaxed),
        };
        served
    }

    /// Returns the sums up to now.
    pub fn totals(&self) -> RequestTotals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestTotals {
            requests: load(&self.requests),
            bytes: load(&self.bytes),
            errors: load(&self.errors),
            times: self.times.totals(),
        }
    }
}
