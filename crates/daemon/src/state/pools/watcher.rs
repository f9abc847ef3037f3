//! The threads of a pool: the pool worker, and threads that ask the devices something from time to time.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::host::process::wakeup::Wakeup;

/// A thread that may stay is waited for so long.
const END_MAX: Duration = Duration::from_secs(2);

/// The threads of a pool, and the way to end them.
pub(super) struct PoolThreads {
    wakeup: Arc<Wakeup>,
    /// Tells the threads that run now to end.
    leaving: Mutex<Arc<AtomicBool>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    /// The threads for heartbeats, reservations and the image.
    watchers: Mutex<Vec<Watcher>>,
}

impl PoolThreads {
    /// No threads. What sleeps is woken by `wakeup`.
    pub(super) fn new(wakeup: &Arc<Wakeup>) -> PoolThreads {
        PoolThreads {
            wakeup: Arc::clone(wakeup),
            leaving: Mutex::default(),
            worker: Mutex::default(),
            watchers: Mutex::default(),
        }
    }

    /// Begins with new threads. They sleep with the first value, and end when the second one is true.
    pub(super) fn begin(&self) -> (Arc<Wakeup>, Arc<AtomicBool>) {
        let leaving = Arc::<AtomicBool>::default();
        *self.leaving.lock() = Arc::clone(&leaving);
        (Arc::clone(&self.wakeup), leaving)
    }

    pub(super) fn start_worker(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        *self.worker.lock() = Some(threads::start("pool-worker", work)?);
        Ok(())
    }

    /// Starts another thread. See [`Watcher::start`].
    pub(super) fn start_watcher(
        &self,
        name: &str,
        may_stay: bool,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let watcher = Watcher::start(name, may_stay, work)?;
        self.watchers.lock().push(watcher);
        Ok(())
    }

    pub(super) fn wake(&self) {
        self.wakeup.wake();
    }

    pub(super) fn tell_to_end(&self) {
        self.leaving.lock().store(true, Ordering::Release);
        self.wake();
    }

    /// Waits for the end of the threads. Returns whether all of them ended without a panic.
    pub(super) fn join(&self) -> bool {
        let worker = self.worker.lock().take();
        let watchers = std::mem::take(&mut *self.watchers.lock());
        let watchers = watchers.into_iter().filter_map(Watcher::ending);
        let all = worker.into_iter().chain(watchers);
        // All are waited for, also after one that panicked.
        let ended: Vec<bool> = all.map(|thread| thread.join().is_ok()).collect();
        !ended.contains(&false)
    }

    /// Returns whether the worker runs.
    #[cfg(test)]
    pub(super) fn has_worker(&self) -> bool {
        let worker = self.worker.lock();
        worker.as_ref().is_some_and(|worker| !worker.is_finished())
    }
}

struct Watcher {
    thread: JoinHandle<()>,
    /// Disconnected when the thread ends.
    ended: Receiver<Infallible>,
    may_stay: bool,
}

impl Watcher {
    /// Starts a thread. With `may_stay` the pool can be exported while the thread waits for a device.
    fn start(
        name: &str,
        may_stay: bool,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Watcher> {
        let (end, ended) = channel();
        let work = move || {
            let _end: Sender<Infallible> = end;
            work();
        };
        Ok(Watcher {
            thread: threads::start(name, work)?,
            ended,
            may_stay,
        })
    }

    /// The thread, to wait for its end. `None` if it may stay, and does not end soon.
    fn ending(self) -> Option<JoinHandle<()>> {
        let stays = || {
            let ended = self.ended.recv_timeout(END_MAX);
            matches!(ended, Err(RecvTimeoutError::Timeout))
        };
        match self.may_stay && stays() {
            true => None,
            false => Some(self.thread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_for_a_device_stays_behind() {
        let (answer, device) = channel::<()>();
        let ask = move || {
            let _ = device.recv();
        };
        let asks = Watcher::start("asks", true, ask).unwrap();
        assert!(asks.ending().is_none());
        answer.send(()).unwrap();
        let over = Watcher::start("over", true, || {}).unwrap();
        assert!(over.ending().is_some());
    }
}
