//! Rounds of work that several threads share: a round serves all threads that came before it began.

use parking_lot::{Condvar, Mutex};

use crate::error::Result;

/// The rounds of one kind of work. One round runs at a time.
#[derive(Default)]
pub(crate) struct WorkRounds {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the last round that began.
    begun: u64,
    /// The number of the last round that succeeded.
    done: u64,
    is_running: bool,
}

impl WorkRounds {
    /// Returns when a round has succeeded that began after this call, by this thread's `work` or that of another.
    ///
    /// # Errors
    /// The work of this thread failed.
    pub(crate) fn join(&self, work: impl Fn() -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        let mine = state.begun + 1;
        while state.done < mine {
            if state.is_running {
                self.ended.wait(&mut state);
                continue;
            }
            state.begun += 1;
            state.is_running = true;
            let this = state.begun;
            drop(state);
            let running = RoundGuard(self);
            let outcome = work();
            drop(running);
            outcome?;
            state = self.state.lock();
            state.done = state.done.max(this);
            self.ended.notify_all();
        }
        Ok(())
    }
}

/// A round that runs. Another can begin when this is dropped, also by a panic.
struct RoundGuard<'a>(&'a WorkRounds);

impl Drop for RoundGuard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_running = false;
        self.0.ended.notify_all();
    }
}
