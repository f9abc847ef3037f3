//! The progress of a run of a job, and the wish that it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::callers::channel::DataChannel;

/// The progress of one run. The thread of the run writes it, and other threads read it.
pub(crate) struct RunProgress {
    begun: Instant,
    /// The bytes that were sent.
    sent: AtomicU64,
    /// The bytes that have to be sent, as far as they are known.
    total: AtomicU64,
    step: Mutex<Option<String>>,
    stop: Mutex<StopWish>,
}

#[derive(Default)]
struct StopWish {
    reason: Option<&'static str>,
    /// The data connections of the present step.
    data: Vec<Arc<dyn DataChannel>>,
}

impl RunProgress {
    pub(crate) fn new() -> Arc<RunProgress> {
        Arc::new(RunProgress {
            begun: Instant::now(),
            sent: AtomicU64::new(0),
            total: AtomicU64::new(0),
            step: Mutex::default(),
            stop: Mutex::default(),
        })
    }

    /// Enters the next step, with the data connections that a stop closes.
    ///
    /// # Errors
    /// The run is to stop.
    pub(crate) fn enter(
        &self,
        step: Option<String>,
        data: Vec<Arc<dyn DataChannel>>,
    ) -> Result<()> {
        let mut stop = self.stop.lock();
        if let Some(reason) = stop.reason {
            return Err(stopped(reason));
        }
        stop.data = data;
        if step.is_some() {
            *self.step.lock() = step;
        }
        Ok(())
    }

    /// Stops the run: the present step ends with a failure.
    pub(crate) fn stop(&self, reason: &'static str) {
        let mut stop = self.stop.lock();
        stop.reason.get_or_insert(reason);
        stop.data.drain(..).for_each(|data| data.break_off());
    }

    /// Refuses to go on, if the run is to stop.
    pub(crate) fn check(&self) -> Result<()> {
        match self.stop.lock().reason {
            None => Ok(()),
            Some(reason) => Err(stopped(reason)),
        }
    }

    pub(crate) fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_total(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The bytes in a second since the run began.
    pub(crate) fn rate(&self) -> u64 {
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        (self.sent() as f64 / seconds) as u64
    }

    pub(crate) fn step(&self) -> Option<String> {
        self.step.lock().clone()
    }
}

fn stopped(reason: &str) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!("the run was stopped: {reason}; the next one goes on where it ended"),
    )
}
