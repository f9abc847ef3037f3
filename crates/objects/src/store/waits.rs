//! Requests that wait for a store to answer, the outage that they make, and the patience with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::Error;

/// A store with requests that answers none of them for so long does not answer.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A slow line may need so long for a full window of large objects. Patience with a request that is still on its way begins
/// only then.
const SLOW_LINE: Duration = Duration::from_secs(120);

/// The time for which devices wait for a store that does not answer. Several devices share it, and it can change at any time.
pub struct StorePatience(AtomicU64);

/// In milliseconds: as long as it takes.
const ENDLESS: u64 = u64::MAX;

impl Default for StorePatience {
    fn default() -> StorePatience {
        StorePatience(AtomicU64::new(ENDLESS))
    }
}

impl StorePatience {
    /// Sets the time. `None`: as long as it takes.
    pub fn set(&self, time: Option<Duration>) {
        let millis = time.map_or(ENDLESS, |time| {
            u64::try_from(time.as_millis()).unwrap_or(ENDLESS)
        });
        self.0.store(millis, Ordering::Relaxed);
    }

    fn time(&self) -> Option<Duration> {
        let millis = self.0.load(Ordering::Relaxed);
        (millis != ENDLESS).then(|| Duration::from_millis(millis))
    }
}

/// A function that is called when an outage begins or ends. It returns at once.
pub type OutageObserver = Arc<dyn Fn() + Send + Sync>;

/// The requests without an answer.
#[derive(Default)]
pub(crate) struct RequestWaits {
    /// The patience of this device.
    own: StorePatience,
    /// The patience of all devices of the process.
    shared: Arc<StorePatience>,
    observer: Option<OutageObserver>,
    table: Mutex<WaitTable>,
    /// Told when the device is given up.
    ended: Notify,
}

#[derive(Default)]
struct WaitTable {
    next: u64,
    requests: BTreeMap<u64, RequestWait>,
    last_answer: Duration,
    /// True once the observer was told of the present outage.
    is_told: bool,
    is_given_up: bool,
}

struct RequestWait {
    since: Duration,
    /// The reason why the last attempt had no answer.
    failure: Option<Error>,
}

/// A request while it waits.
pub(crate) struct WaitingRequest<'a> {
    waits: &'a RequestWaits,
    id: u64,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.waits.table.lock().requests.remove(&self.id);
    }
}

impl RequestWaits {
    /// Sets the patience that the device shares with others, and who is told of outages.
    pub(crate) fn share(&mut self, patience: Arc<StorePatience>, observer: OutageObserver) {
        self.shared = patience;
        self.observer = Some(observer);
    }

    /// The patience of this device alone.
    pub(crate) fn own(&self) -> &StorePatience {
        &self.own
    }

    /// Begins a request.
    pub(crate) fn begin(&self, now: Duration) -> WaitingRequest<'_> {
        let mut table = self.table.lock();
        table.next += 1;
        let id = table.next;
        let wait = RequestWait {
            since: now,
            failure: None,
        };
        table.requests.insert(id, wait);
        WaitingRequest { waits: self, id }
    }

    /// Notes that a request had no answer. Returns whether this begins an outage.
    pub(crate) fn note_failure(
        &self,
        waiting: &WaitingRequest<'_>,
        error: Error,
        now: Duration,
    ) -> bool {
        let mut table = self.table.lock();
        let is_first = !table.has_failures();
        if let Some(request) = table.requests.get_mut(&waiting.id) {
            request.failure = Some(error);
        }
        drop(table);
        self.observe(now);
        is_first
    }

    /// Notes the answer to a request. Returns whether this ends an outage.
    pub(crate) fn note_answer(&self, waiting: &WaitingRequest<'_>, now: Duration) -> bool {
        let mut table = self.table.lock();
        table.last_answer = now;
        let request = table.requests.remove(&waiting.id);
        let was_out = request.is_some_and(|request| request.failure.is_some());
        let is_last = was_out && !table.has_failures();
        drop(table);
        self.observe(now);
        is_last
    }

    /// Tells the observer if an outage has begun or ended.
    pub(crate) fn observe(&self, now: Duration) {
        let mut table = self.table.lock();
        let is_out = table.outage(now).is_some();
        let is_new = std::mem::replace(&mut table.is_told, is_out) != is_out;
        drop(table);
        if let Some(observer) = self.observer.as_ref().filter(|_| is_new) {
            observer();
        }
    }

    /// The length of an outage, its reason, and the number of requests that wait. `None` while the store answers.
    pub(crate) fn outage(&self, now: Duration) -> Option<(Duration, Option<String>, usize)> {
        self.table.lock().outage(now)
    }

    /// Returns whether the patience with a request has ended.
    pub(crate) fn is_overdue(&self, waiting: &WaitingRequest<'_>, now: Duration) -> bool {
        let times = [self.own.time(), self.shared.time()].into_iter().flatten();
        let Some(patience) = times.min() else {
            return false;
        };
        let table = self.table.lock();
        table.requests.get(&waiting.id).is_some_and(|request| {
            let time = now.saturating_sub(request.since);
            match request.failure {
                Some(_) => time >= patience,
                None => time.min(table.silence(now)) >= patience + SLOW_LINE,
            }
        })
    }

    /// Ends all waiting.
    pub(crate) fn give_up(&self) {
        self.table.lock().is_given_up = true;
        self.ended.notify_waiters();
    }

    /// Returns whether all waiting has ended.
    pub(crate) fn is_given_up(&self) -> bool {
        self.table.lock().is_given_up
    }

    /// Waits for the end of all waiting.
    pub(crate) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    /// Lets requests wait again, after all waiting had ended.
    pub(crate) fn begin_anew(&self) {
        self.table.lock().is_given_up = false;
    }
}

impl WaitTable {
    fn has_failures(&self) -> bool {
        self.requests
            .values()
            .any(|request| request.failure.is_some())
    }

    /// The time since the last answer, while requests wait.
    fn silence(&self, now: Duration) -> Duration {
        let oldest = self.requests.values().map(|request| request.since).min();
        oldest.map_or(Duration::ZERO, |oldest| {
            now.saturating_sub(oldest.max(self.last_answer))
        })
    }

    /// The length of an outage, its reason, and the number of requests that wait.
    fn outage(&self, now: Duration) -> Option<(Duration, Option<String>, usize)> {
        let failed = self
            .requests
            .values()
            .filter(|request| request.failure.is_some());
        let oldest = failed.min_by_key(|request| request.since);
        let silence = self.silence(now);
        let (time, reason) = match oldest {
            Some(oldest) => {
                let reason = oldest.failure.as_ref().map(Error::to_string);
                (now.saturating_sub(oldest.since), reason)
            }
            None if silence >= SILENCE_MAX => (silence, None),
            None => return None,
        };
        Some((time, reason, self.requests.len()))
    }
}
