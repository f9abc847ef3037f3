//! Waking the threads that look after pools.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes the threads that look after pools.
#[derive(Default)]
pub(crate) struct Alarm {
    rung: Mutex<u64>,
    changed: Condvar,
}

impl Alarm {
    /// Wakes them.
    pub(crate) fn ring(&self) {
        *self.rung.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until it rings after `last`, or for `time`, and says what it has rung by then.
    pub(crate) fn wait(&self, last: u64, time: Duration) -> u64 {
        let mut rung = self.rung.lock();
        if *rung == last {
            self.changed.wait_for(&mut rung, time);
        }
        *rung
    }
}
