//! Counters and histograms, for metrics.
//!
//! Threads add with relaxed atomic additions and never wait. A reader gets numbers that may be a few
//! events apart from each other. This crate has no clock: callers measure durations.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounded buckets of a [`Histogram`]; one more takes what is longer.
pub const BUCKETS: usize = 25;

/// The first bucket ends at two to this power, in nanoseconds; each next one at twice as much.
const FIRST_BITS: u32 = 10;

/// Returns the end of a bucket in nanoseconds: 1,024 of the first, 17 seconds of the last.
pub const fn bucket_end(bucket: usize) -> u64 {
    1 << (FIRST_BITS + bucket as u32)
}

/// Counts what others can cause again and again, and picks those that get a line in the log. These are the first one,
/// and each that
/// doubles the count.
#[derive(Debug, Default)]
pub struct LogCount(AtomicU64);

impl LogCount {
    /// Counts one. Returns how many there were, if this one gets a line.
    pub fn next_line(&self) -> Option<u64> {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        count.is_power_of_two().then_some(count)
    }
}

/// The durations of operations, counted by powers of two.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS + 1],
    nanos: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bits = u64::BITS - (nanos >> FIRST_BITS).leading_zeros();
        let bucket = (bits as usize).min(BUCKETS);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the counts up to now.
    pub fn totals(&self) -> Times {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Times {
            buckets: self.buckets.each_ref().map(load),
            nanos: load(&self.nanos),
        }
    }
}

/// The counts of a [`Histogram`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The number of operations in each bucket; the last bucket has no end.
    pub buckets: [u64; BUCKETS + 1],
    /// All of them together, in nanoseconds.
    pub nanos: u64,
}

impl Times {
    /// The number of operations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time that this share of them (0.99, for example) did not exceed, as well as can be told from
    /// buckets: in the middle of one. `None` if there were none.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            let before = seen;
            seen += n;
            if *n > 0 && seen >= rank {
                let (begin, end) = (bucket_end(bucket) / 2, bucket_end(bucket));
                let begin = if bucket == 0 { 0 } else { begin };
                let into = (rank - before) as f64 / *n as f64;
                let nanos = begin as f64 + (end - begin) as f64 * into;
                return Some(Duration::from_nanos(nanos as u64));
            }
        }
        None
    }
}

/// A kind of operation: how many, how large, how long, and how many failed. It has cache lines of
/// its own, so that counting one kind does not slow down counting another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OperationMeter {
    times: Histogram,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl OperationMeter {
    /// Counts one that was done.
    pub fn done(&self, took: Duration, bytes: u64) {
        self.times.record(took);
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts one that failed.
    pub fn failed(&self, took: Duration) {
        self.times.record(took);
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts up to now.
    pub fn totals(&self) -> Totals {
        Totals {
            times: self.times.totals(),
            bytes: self.bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }
}

/// The counts of an [`OperationMeter`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The durations of all operations, also of those that failed.
    pub times: Times,
    /// Bytes that were moved.
    pub bytes: u64,
    /// The number of operations that failed.
    pub errors: u64,
}

/// The hits and misses of lookups in a cache.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Lookups {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Lookups {
    /// Counts what a cache answered, and passes it on.
    pub fn count<T>(&self, found: Option<T>) -> Option<T> {
        let counter = match found {
            Some(_) => &self.hits,
            None => &self.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Returns the counts up to now, with the bytes that the cache holds and may hold.
    pub fn totals(&self, bytes: u64, capacity: u64) -> CacheTotals {
        CacheTotals {
            bytes,
            capacity,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

/// The contents of a cache, and its hits and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Bytes that it holds.
    pub bytes: u64,
    /// Bytes that it may hold.
    pub capacity: u64,
    /// The number of lookups that found their entry.
    pub hits: u64,
    /// The number of lookups that did not.
    pub misses: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_seldom() {
        let count = LogCount::default();
        let lines: Vec<u64> = (0..1000).filter_map(|_| count.next_line()).collect();
        assert_eq!(lines, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    }

    #[test]
    fn every_duration_has_its_bucket() {
        let cases = [
            (0, 0),
            (1023, 0),
            (1024, 1),
            (2047, 1),
            (2048, 2),
            (bucket_end(BUCKETS - 1) - 1, BUCKETS - 1),
            (bucket_end(BUCKETS - 1), BUCKETS),
            (u64::MAX, BUCKETS),
        ];
        for (nanos, bucket) in cases {
            let histogram = Histogram::default();
            histogram.record(Duration::from_nanos(nanos));
            let totals = histogram.totals();
            assert_eq!(totals.buckets[bucket], 1, "{nanos}");
            assert_eq!((totals.count(), totals.nanos), (1, nanos));
        }
        let longest = Histogram::default();
        longest.record(Duration::MAX);
        assert_eq!(longest.totals().buckets[BUCKETS], 1);
    }

    #[test]
    fn percentiles_lie_in_their_buckets() {
        let histogram = Histogram::default();
        assert_eq!(histogram.totals().percentile(0.5), None);
        for _ in 0..99 {
            histogram.record(Duration::from_nanos(1500));
        }
        histogram.record(Duration::from_micros(100));
        let totals = histogram.totals();
        for (share, from, to) in [
            (0.0, 1024, 2048),
            (0.5, 1024, 2048),
            (0.99, 1024, 2048),
            (1.0, 65_536, 131_072),
        ] {
            let found = totals.percentile(share).unwrap().as_nanos();
            assert!((from..=to).contains(&found), "{share}: {found}");
        }
    }

    #[test]
    fn lookups_are_told_apart() {
        let lookups = Lookups::default();
        assert_eq!(lookups.count(Some(1)), Some(1));
        assert_eq!(lookups.count(Some(2)), Some(2));
        assert_eq!(lookups.count(None::<u8>), None);
        let totals = lookups.totals(5, 6);
        assert_eq!((totals.hits, totals.misses), (2, 1));
        assert_eq!((totals.bytes, totals.capacity), (5, 6));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let operation = OperationMeter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000 {
                        match n % 10 {
                            0 => operation.failed(Duration::from_nanos(1)),
                            _ => operation.done(Duration::from_nanos(1), 3),
                        }
                    }
                });
            }
        });
        let totals = operation.totals();
        assert_eq!(totals.times.count(), 4000);
        assert_eq!(totals.times.nanos, 4000);
        assert_eq!((totals.bytes, totals.errors), (3 * 3600, 400));
    }
}
