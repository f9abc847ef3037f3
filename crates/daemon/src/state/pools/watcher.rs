//! A thread that asks the devices of a pool something from time to time.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that may stay is waited for so long.
const END_MAX: Duration = Duration::from_secs(2);

pub(super) struct Watcher {
    thread: JoinHandle<()>,
    /// Disconnected when the thread ends.
    ended: Receiver<Infallible>,
    may_stay: bool,
}

impl Watcher {
    /// Starts a thread. With `may_stay` the pool can be exported while the thread waits for a device.
    pub(super) fn start(
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
    pub(super) fn ending(self) -> Option<JoinHandle<()>> {
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
