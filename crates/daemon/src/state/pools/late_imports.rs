//! Imports of the start that wait for an object store.

use std::collections::BTreeSet;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The pools whose import is tried again until their stores answer, by name.
#[derive(Default)]
pub(crate) struct LateImports(Mutex<BTreeSet<String>>);

impl LateImports {
    /// Notes that the import of a pool is tried again.
    pub(crate) fn begin(&self, name: &str) {
        self.0.lock().insert(name.to_owned());
    }

    /// Notes that the import is not tried again.
    pub(crate) fn end(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Returns whether the import of a pool is tried again by itself.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.lock().contains(name)
    }
}

/// The first attempt to import a pool. The start waits for it, but not for long.
#[derive(Default)]
pub(crate) struct FirstAttempt {
    state: Mutex<AttemptState>,
    changed: Condvar,
}

#[derive(Default)]
struct AttemptState {
    has_ended: bool,
    /// True once the start goes on without the pool.
    is_late: bool,
}

impl FirstAttempt {
    /// Ends the attempt. Returns whether the start went on without it.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.state.lock();
        state.has_ended = true;
        self.changed.notify_all();
        state.is_late
    }

    /// Waits for the end of the attempt until a moment. From then on the pool is late.
    pub(crate) fn wait_until(&self, moment: Instant) {
        let mut state = self.state.lock();
        while !state.has_ended {
            if self.changed.wait_until(&mut state, moment).timed_out() {
                break;
            }
        }
        state.is_late = !state.has_ended;
    }
}
