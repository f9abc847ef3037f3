//! The lease of a pool with heartbeats (`multihost=on`): how long this host may use it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// The end of a lease without heartbeats: never.
const NONE: u64 = u64::MAX;

/// The heartbeats of a pool. Changes are made, and reported as durable, only while the last heartbeat is young enough.
pub(crate) struct Heart {
    /// The last heartbeat. Locked while the next one is written.
    pub(crate) beating: Mutex<Option<LastHeartbeat>>,
    /// The time when the last heartbeat is too old, in milliseconds by the clock of leases.
    until: AtomicU64,
    fail_time: AtomicU64,
}

/// The last heartbeat that was written.
#[derive(Clone, Copy)]
pub(crate) struct LastHeartbeat {
    /// Tells this import of the pool from others.
    pub(crate) session: u64,
    pub(crate) sequence: u64,
    /// The time when its write began, by the clock of leases.
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
    /// Notes a heartbeat whose write began at `at`.
    pub(crate) fn extend(&self, at: Duration, fail_time: Duration) {
        let millis = |time: Duration| time.as_millis() as u64;
        self.fail_time.store(millis(fail_time), Ordering::Release);
        self.until.store(millis(at + fail_time), Ordering::Release);
    }

    /// Notes that no more heartbeats are needed.
    pub(crate) fn end(&self) {
        self.until.store(NONE, Ordering::Release);
    }

    /// The time since the last heartbeat, if that is too long.
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
