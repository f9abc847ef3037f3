//! Requests that a store does not answer: they are repeated, for as long as the patience of the device lasts.

use std::sync::Weak;
use std::time::Duration;

use futures_util::future::{self, Either};

use super::line::Line;
use crate::store::waits::WaitingRequest;
use crate::{Error, Result};

/// The first pause before a request is repeated.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A request that waits looks so often whether the patience has ended.
const LOOK: Duration = Duration::from_secs(1);

/// The requests of a device that wait for the store to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOutage {
    /// The time for which the store has not answered.
    pub time: Duration,
    /// The reason of the client, if it gives one.
    pub reason: Option<String>,
    /// The number of objects that are not written yet.
    pub writes: usize,
    /// Their bytes.
    pub bytes: usize,
    /// The number of other requests that wait.
    pub others: usize,
}

/// A look at the store of a device, as long as the device is open.
#[derive(Clone)]
pub struct StoreMonitor(pub(super) Weak<Line>);

impl StoreMonitor {
    /// Returns whether the device is open.
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Returns whether this is a look at the same device as another one.
    pub fn is_same(&self, other: &StoreMonitor) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// The outage of the store: requests wait for it. `None` if it answers.
    pub fn outage(&self) -> Option<StoreOutage> {
        self.0.upgrade()?.outage()
    }

    /// Sets the time for which this device waits for a store that does not answer. `None`: as long as it takes.
    ///
    /// After it, all requests fail, and what was not durable may be lost.
    pub fn set_patience(&self, time: Option<Duration>) {
        if let Some(line) = self.0.upgrade() {
            line.waits.own().set(time);
        }
    }

    /// Ends the wait for a store that does not answer: all requests fail from now on. What was not durable may be lost.
    pub fn give_up(&self) {
        if let Some(line) = self.0.upgrade() {
            line.give_up();
        }
    }
}

impl Line {
    /// Repeats a request until the store answers it. An outage is no error: writers wait.
    ///
    /// # Errors
    /// The store refuses the request, or the patience with it ends.
    pub(super) async fn patiently<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let waiting = self.waits.begin(self.executor.now());
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.unless_given_up(&waiting, request()).await? {
                Err(error) if error.is_outage() => error,
                answer => {
                    if self.waits.note_answer(&waiting, self.executor.now()) {
                        let store = self.store.address();
                        tracing::info!(store, "an object store answers again");
                    }
                    return answer;
                }
            };
            // A line that has failed waits for nothing any more.
            if self.state().failure.is_some() {
                return Err(error);
            }
            let text = error.to_string();
            if self
                .waits
                .note_failure(&waiting, error, self.executor.now())
            {
                tracing::warn!(
                    error = text,
                    "an object store does not answer; writers wait"
                );
            }
            self.unless_given_up(&waiting, self.executor.sleep(pause))
                .await?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs a part of a request, unless the device is given up meanwhile, or the patience with the request ends.
    async fn unless_given_up<T>(
        &self,
        waiting: &WaitingRequest<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        let mut work = Box::pin(work);
        loop {
            let ended = self.waits.ended();
            tokio::pin!(ended);
            // From here on no end is missed.
            ended.as_mut().enable();
            if self.waits.is_given_up() {
                self.state().check()?;
            }
            let look = future::select(ended, self.executor.sleep(LOOK));
            match future::select(work, look).await {
                Either::Left((done, _)) => return Ok(done),
                Either::Right((_, rest)) => work = rest,
            }
            self.waits.observe(self.executor.now());
            if self.waits.is_overdue(waiting, self.executor.now()) {
                self.give_up();
            }
        }
    }

    /// Ends all waiting: requests without an answer fail from now on. No effect while the store answers.
    fn give_up(&self) {
        let Some(outage) = self.outage() else { return };
        let reason = outage.reason.unwrap_or_else(|| "it does not answer".into());
        self.fail(Error::Unanswered {
            store: self.store.address(),
            operation: "a request",
            object: "log/".into(),
            reason: format!("given up after {} s: {reason}", outage.time.as_secs()),
        });
        self.waits.give_up();
    }

    /// The outage of the store. `None` if it answers.
    fn outage(&self) -> Option<StoreOutage> {
        let (time, reason, requests) = self.waits.outage(self.executor.now())?;
        let state = self.state();
        let writer = state.writer.as_ref();
        let writes = writer.map_or(0, |writer| writer.pending.len());
        Some(StoreOutage {
            time,
            reason,
            writes,
            bytes: writer.map_or(0, |writer| writer.pending_bytes),
            others: requests.saturating_sub(writes),
        })
    }
}
