//! A worker that yields its processor to everything else: the policy `SCHED_IDLE` of the kernel.
//!
//! Where the worker and the program that it serves share a processor, the kernel would move the program to an
//! idle one with each answer, and to wake that takes longer than to serve the request. A processor that has
//! only tasks that yield counts as idle, so the program stays.
//!
//! Such a worker may get no processor for long, while it holds locks or a request waits for it. So the watcher
//! looks after it, and ends its yielding when it does not get on.

#![allow(unsafe_code)]

use std::sync::LazyLock;
use std::thread;

use parking_lot::Mutex;
use rustix::thread::{Pid, gettid};

/// Which worker yields. Only one does at a time.
#[derive(Debug, Default)]
pub(crate) struct Yielding {
    worker: Mutex<Option<Pid>>,
}

impl Yielding {
    /// Has the calling worker yield, if no other one does. Whether that was done.
    pub(crate) fn begin(&self) -> bool {
        let mut worker = self.worker.lock();
        if worker.is_some() || !is_possible() || !set(0, libc::SCHED_IDLE) {
            return false;
        }
        *worker = Some(gettid());
        true
    }

    /// Whether the calling worker yields: nobody has ended that.
    pub(crate) fn is_mine(&self) -> bool {
        *self.worker.lock() == Some(gettid())
    }

    /// Whether a worker yields.
    pub(crate) fn is_any(&self) -> bool {
        self.worker.lock().is_some()
    }

    /// Has the calling worker be as others, if it yields. It calls this before it ends.
    pub(crate) fn end_mine(&self) {
        let mut worker = self.worker.lock();
        if worker.take_if(|worker| *worker == gettid()).is_some() {
            set(0, libc::SCHED_OTHER);
        }
    }

    /// Has the worker that yields be as others.
    pub(crate) fn end(&self) {
        let mut worker = self.worker.lock();
        if let Some(thread) = worker.take() {
            set(thread.as_raw_nonzero().get(), libc::SCHED_OTHER);
        }
    }
}

/// Whether threads of this process may yield and end that again, which takes `CAP_SYS_NICE`; and whether they have the
/// ordinary policy, and not one that somebody has chosen for them.
pub(crate) fn is_possible() -> bool {
    // On a thread that ends: it may be left with the policy.
    static IS_POSSIBLE: LazyLock<bool> = LazyLock::new(|| {
        let tried = thread::Builder::new().spawn(|| {
            policy() == libc::SCHED_OTHER && set(0, libc::SCHED_IDLE) && set(0, libc::SCHED_OTHER)
        });
        tried.is_ok_and(|thread| thread.join().unwrap_or(false))
    });
    *IS_POSSIBLE
}

/// The policy of the calling thread.
fn policy() -> i32 {
    // SAFETY: takes a number; 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) }
}

/// Sets the policy of a thread of this process, 0 for the calling one. It is inherited.
fn set(thread: i32, policy: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure lives longer than the call, which only reads it.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Whether the calling thread yields, as the kernel has it.
    pub(crate) fn yields() -> bool {
        policy() == libc::SCHED_IDLE
    }

    impl Yielding {
        /// Where another worker yields.
        pub(crate) fn of_another() -> Yielding {
            Yielding {
                worker: Mutex::new(Some(Pid::INIT)),
            }
        }
    }

    #[test]
    fn one_yields_and_others_can_end_that() {
        if !is_possible() {
            eprintln!("skipped: no right to yield and to end it (CAP_SYS_NICE)");
            return;
        }
        let yielding = Yielding::default();
        assert!(yielding.begin() && yielding.is_mine() && yields());
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!yielding.is_mine() && yielding.is_any() && !yielding.begin());
                yielding.end();
            });
        });
        assert!(!yielding.is_mine() && !yielding.is_any() && !yields());
        yielding.end();
    }
}
