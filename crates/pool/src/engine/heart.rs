//! How long this host may use a pool that it shows to be its own by heartbeats (`multihost=on`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// What a host without heartbeats has: no end.
const NONE: u64 = u64::MAX;

/// The heartbeats of a pool. A change is made, and told to be durable, only as long as the last one is young enough.
pub(crate) struct Heart {
    /// Taken while one is written.
    pub(crate) beating: Mutex<Option<Beating>>,
    /// When the last one is too old, in milliseconds by the clock of leases.
    until: AtomicU64,
    fail_time: AtomicU64,
}

/// What was written last.
#[derive(Clone, Copy)]
pub(crate) struct Beating {
    /// Tells this import of the pool from others.
    pub(crate) session: u64,
    pub(crate) sequence: u64,
    /// When it was begun, by the clock of leases.
    pub(crate) at: Duration,
}

impl Default for Heart {
    fn default() -> Heart {
        Heart {
            beating: Mutex::default(),
            until: AtomicU64::new(NONE),
            fail_time: AtomicU64::new(0),
        }
    }
}

impl Heart {
    /// One was written that was begun at `at`.
    pub(crate) fn extend(&self, at: Duration, fail_time: Duration) {
        let millis = |time: Duration| time.as_millis() as u64;
        self.fail_time.store(millis(fail_time), Ordering::Release);
        self.until.store(millis(at + fail_time), Ordering::Release);
    }

    /// None are needed any more.
    pub(crate) fn end(&self) {
        self.until.store(NONE, Ordering::Release);
    }

    /// For how long there was none, if that is too long.
    pub(crate) fn lapsed(&self, now: impl FnOnce() -> Duration) -> Option<Duration> {
        let until = self.until.load(Ordering::Acquire);
        if until == NONE {
            return None;
        }
        let late = (now().as_millis() as u64).checked_sub(until)?;
        let fail_time = self.fail_time.load(Ordering::Acquire);
        Some(Duration::from_millis(late + fail_time))
    }
}
