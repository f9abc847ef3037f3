//! Wakes the worker and heartbeat threads of pools.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes the worker and heartbeat threads of pools.
#[derive(Default)]
pub(crate) struct Wakeup {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Wakeup {
    /// Wakes the threads.
    pub(crate) fn wake(&self) {
        *self.count.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits for a call of [`Wakeup::wake`] after call number `last`, or for `time`. Returns the number of calls up to
    /// now.
    pub(crate) fn wait(&self, last: u64, time: Duration) -> u64 {
        let mut count = self.count.lock();
        if *count == last {
            self.changed.wait_for(&mut count, time);
        }
        *count
    }
}
