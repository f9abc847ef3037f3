//! Flushes of a file: none succeeds after one that failed.
//!
//! The system drops what it could not write, and says so once for each open file. A flush that is tried again succeeds
//! then, and says nothing of what was lost. So a failure is kept here. It counts also for the flushes that are under way
//! at the same time, which the system may tell nothing.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, RwLock};

/// The error of a flush after another one has failed.
const EARLIER: &str =
    "a flush failed before, and writes may be lost; close the device and open it again";

/// The flushes of an open file. Those that wait for the same one share the next.
#[derive(Default)]
pub(super) struct Flushes {
    state: Mutex<State>,
    ended: Condvar,
    /// Held for reading by each durable write: its failure may be that of an earlier write.
    durable_writes: RwLock<()>,
}

#[derive(Default)]
struct State {
    /// The number of flushes that have begun.
    begun: u64,
    /// The last one that succeeded.
    succeeded: u64,
    is_running: bool,
    has_failed: bool,
}

impl Flushes {
    /// Makes durable what was written before this call, by `sync`, or by that of another thread.
    pub(super) fn flush(&self, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        // One that runs already need not cover the last writes.
        let wanted = state.begun + 1;
        loop {
            if state.has_failed {
                return Err(io::Error::other(EARLIER));
            }
            if state.succeeded >= wanted {
                return Ok(());
            }
            if state.is_running {
                state = self.wait(state);
                continue;
            }
            let (now, done) = self.run(state, &sync);
            state = now;
            if let Err(error) = done {
                state.has_failed = true;
                return Err(error);
            }
            if !state.has_failed {
                state.succeeded = state.begun;
            }
        }
    }

    /// Runs a flush. No other one runs meanwhile.
    fn run<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> (MutexGuard<'a, State>, io::Result<()>) {
        state.is_running = true;
        state.begun += 1;
        drop(state);
        let done = sync();
        // Durable writes that are under way may be told of the failure instead.
        drop(self.durable_writes.write());
        let mut state = self.state();
        state.is_running = false;
        self.ended.notify_all();
        (state, done)
    }

    /// Makes a durable write.
    pub(super) fn write_durably<E>(&self, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let under_way = self.durable_writes.read();
        let written = write();
        if written.is_err() {
            self.state().has_failed = true;
        }
        drop(under_way);
        written
    }

    /// After a failure: `sync` writes what is left, and has reads return what the medium holds. If it succeeds, flushes
    /// succeed again. Without a failure nothing is done.
    pub(super) fn begin_anew(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        while state.is_running {
            state = self.wait(state);
        }
        if !state.has_failed {
            return Ok(());
        }
        // A durable write may fail meanwhile.
        state.has_failed = false;
        let (mut state, done) = self.run(state, sync);
        state.has_failed |= done.is_err();
        done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.ended.wait(state).unwrap_or_else(|p| p.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Barrier};

    use super::*;

    fn fails() -> io::Result<()> {
        Err(io::Error::other("lost"))
    }

    #[test]
    fn none_succeeds_after_one_that_failed() {
        let flushes = Flushes::default();
        flushes.flush(|| Ok(())).unwrap();
        assert_eq!(flushes.flush(fails).unwrap_err().to_string(), "lost");
        // The system would say that all is well.
        assert_eq!(flushes.flush(|| Ok(())).unwrap_err().to_string(), EARLIER);
        assert!(flushes.begin_anew(fails).is_err());
        assert!(flushes.flush(|| Ok(())).is_err());
        flushes.begin_anew(|| Ok(())).unwrap();
        flushes.flush(|| Ok(())).unwrap();
        flushes.begin_anew(|| panic!("nothing failed")).unwrap();
        // A durable write may be told of what another write lost.
        assert!(flushes.write_durably(fails).is_err());
        assert!(flushes.flush(|| Ok(())).is_err());
        let meanwhile = || flushes.write_durably(fails).or(Ok(()));
        flushes.begin_anew(meanwhile).unwrap();
        assert!(flushes.flush(|| Ok(())).is_err());
    }

    #[test]
    fn those_that_wait_for_one_that_fails_fail_too() {
        const THREADS: usize = 4;
        let flushes = Arc::new(Flushes::default());
        let syncs = Arc::new(AtomicUsize::new(0));
        let (begun, go) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let sync = || {
                    begun.wait();
                    go.wait();
                    fails()
                };
                assert_eq!(flushes.flush(sync).unwrap_err().to_string(), "lost");
            });
            begun.wait();
            // They come while one runs that will fail, of which the system would tell them nothing.
            let waiting: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (flushes, syncs) = (Arc::clone(&flushes), Arc::clone(&syncs));
                    scope.spawn(move || {
                        flushes.flush(|| {
                            syncs.fetch_add(1, SeqCst);
                            Ok(())
                        })
                    })
                })
                .collect();
            go.wait();
            for thread in waiting {
                assert!(thread.join().unwrap().is_err());
            }
        });
        assert_eq!(syncs.load(SeqCst), 0);
    }
}
