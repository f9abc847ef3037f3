//! Interrupts, which end a measurement but not what has to be removed after it.

use std::sync::atomic::{AtomicBool, Ordering};

use console::outcome::Result;
use console::terminal::Interruptions;
use protocol::api::Failure;

/// Holds signals back while it lives.
pub(super) struct StopRequest {
    signals: Interruptions,
    /// True if one came: the thread that sees it tells the others.
    came: AtomicBool,
}

impl StopRequest {
    pub(super) fn new() -> Result<StopRequest> {
        let signals = Interruptions::hold().map_err(|error| Failure::other(error.to_string()))?;
        Ok(StopRequest {
            signals,
            came: AtomicBool::new(false),
        })
    }

    /// Returns whether the measurement is to end. Costs nothing while no signal came.
    pub(super) fn came(&self) -> bool {
        if self.signals.is_pending() && self.signals.came() {
            self.came.store(true, Ordering::Relaxed);
        }
        self.came.load(Ordering::Relaxed)
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.came() {
            true => Err(Failure::other("interrupted; the test data is removed")),
            false => Ok(()),
        }
    }
}
