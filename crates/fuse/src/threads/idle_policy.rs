//! A worker that yields its processor to everything else: the policy `SCHED_IDLE` of the kernel.
//!
//! Where the worker and the program that it serves share a processor, the kernel would move the program to an idle
//! one with each answer. Waking that processor takes longer than the request. A processor that has only tasks that
//! yield counts as idle, so the program stays.
//!
//! Such a worker may get no processor for long, while it holds locks or a request waits for it. So the watcher checks
//! it, and ends its yielding whenever it has not moved on. The worker may be stopped anywhere, so the two share no
//! lock. The worker sets the flag that it yields, and the watcher sets the flag that this has ended.

#![allow(unsafe_code)]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use rustix::process::getpid;
use rustix::thread::{Pid, gettid, sched_getaffinity, sched_setaffinity};

/// The pauses after failures, in milliseconds. After the first one no worker yields for the shortest. After each one
/// soon after the last, the pause is twice as long.
const SHORTEST_PAUSE: u64 = 100;
const LONGEST_PAUSE: u64 = 10_000;
/// To yield for so long without a failure, in milliseconds, makes the next pause the shortest again.
const GOOD: u64 = 1000;

/// The worker of a session that yields. Only one does at a time.
#[derive(Debug)]
pub(crate) struct IdlePolicy {
    /// The thread that yields, or is about to; 0 if there is none. Written by this thread alone.
    worker: AtomicI32,
    /// True if the watcher has ended the yielding.
    is_ended: AtomicBool,
    /// True once the watcher has ended.
    is_over: AtomicBool,
    start: Instant,
    /// Moments in milliseconds since the start.
    begun: AtomicU64,
    not_before: AtomicU64,
    pause: AtomicU64,
}

impl Default for IdlePolicy {
    fn default() -> IdlePolicy {
        IdlePolicy {
            worker: AtomicI32::new(0),
            is_ended: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            start: Instant::now(),
            begun: AtomicU64::new(0),
            not_before: AtomicU64::new(0),
            pause: AtomicU64::new(0),
        }
    }
}

impl IdlePolicy {
    /// Returns whether a worker may begin to yield.
    pub(crate) fn may_begin(&self) -> bool {
        self.now() >= self.not_before.load(SeqCst) && !self.is_any() && is_possible()
    }

    /// Has the calling worker yield, if it may. Whether that was done.
    pub(crate) fn begin(&self) -> bool {
        if !self.may_begin() {
            return false;
        }
        let now = self.now();
        let own = gettid().as_raw_nonzero().get();
        if self
            .worker
            .compare_exchange(0, own, SeqCst, SeqCst)
            .is_err()
        {
            return false;
        }
        self.begun.store(now, SeqCst);
        let begun = set(0, libc::SCHED_IDLE);
        // The watcher may have ended it before it had begun.
        if !begun || self.is_ended.load(SeqCst) || self.is_over.load(SeqCst) {
            self.end_mine();
            return false;
        }
        true
    }

    /// Returns whether the calling worker yields, and the watcher has not ended that.
    pub(crate) fn is_mine(&self) -> bool {
        self.worker.load(SeqCst) == gettid().as_raw_nonzero().get() && !self.is_ended.load(SeqCst)
    }

    /// Returns whether a worker yields, or has not noticed that this has ended.
    pub(crate) fn is_any(&self) -> bool {
        self.worker.load(SeqCst) != 0
    }

    /// Has the calling worker be as others, if it yields. It calls this before it ends.
    pub(crate) fn end_mine(&self) {
        if self.worker.load(SeqCst) == gettid().as_raw_nonzero().get() {
            if !set(0, libc::SCHED_OTHER) {
                tracing::warn!("a worker cannot get its priority back; serving it may be slow");
            }
            // If the watcher ends it once more after this, the next one to begin ends at once, and nothing is lost.
            self.is_ended.store(false, SeqCst);
            self.worker.store(0, SeqCst);
        }
    }

    /// Has the worker that yields be as others, and run wherever the process may. Called by the watcher alone, again until
    /// the worker has noticed. `is_failure`: it did not move on although there was something to do.
    pub(crate) fn end(&self, is_failure: bool) {
        let Some(thread) = Pid::from_raw(self.worker.load(SeqCst)) else {
            return;
        };
        let is_first = !self.is_ended.swap(true, SeqCst);
        set(thread.as_raw_nonzero().get(), libc::SCHED_OTHER);
        if let Ok(processors) = sched_getaffinity(Some(getpid())) {
            let _ = sched_setaffinity(Some(thread), &processors);
        }
        if is_failure && is_first {
            let now = self.now();
            let longer = match now - self.begun.load(SeqCst).min(now) {
                0..GOOD => self.pause.load(SeqCst) * 2,
                _ => 0,
            };
            let pause = longer.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            self.pause.store(pause, SeqCst);
            self.not_before.store(now + pause, SeqCst);
        }
    }

    /// From now on nobody yields.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, SeqCst);
        self.end(false);
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

/// Returns whether threads of this process may yield and end that again, which takes `CAP_SYS_NICE`. They must have
/// the ordinary policy now.
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

/// The policy of the calling thread. The functions of musl only say that they are missing: in POSIX they are about
/// processes. So the kernel is called without them.
fn policy() -> i32 {
    // SAFETY: takes a number; 0 is the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    i32::try_from(policy).unwrap_or(-1)
}

/// Sets the policy of a thread of this process, 0 for the calling one. It is inherited.
fn set(thread: i32, policy: i32) -> bool {
    // The `sched_param` of the kernel: a priority. That of musl has more fields.
    let priority: i32 = 0;
    // SAFETY: the number lives longer than the call, which only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            thread,
            policy,
            &raw const priority,
        ) == 0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns whether the calling thread yields, as the kernel has it.
    pub(crate) fn yields() -> bool {
        policy() == libc::SCHED_IDLE
    }

    /// Returns whether tests can show anything here.
    pub(crate) fn may_yield() -> bool {
        let may = is_possible();
        if !may {
            eprintln!("skipped: no right to yield and to end it (CAP_SYS_NICE)");
        }
        may
    }

    impl IdlePolicy {
        /// A policy under which another worker yields.
        pub(crate) fn of_another() -> IdlePolicy {
            IdlePolicy {
                worker: AtomicI32::new(1),
                ..IdlePolicy::default()
            }
        }

        /// Sets the time back, so that the last failure is long ago.
        pub(crate) fn forgive(&self) {
            self.not_before.store(0, SeqCst);
        }
    }

    #[test]
    fn one_yields_and_the_watcher_can_end_that() {
        if !may_yield() {
            return;
        }
        let yielding = IdlePolicy::default();
        assert!(yielding.begin() && yielding.is_mine() && yields());
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!yielding.is_mine() && yielding.is_any() && !yielding.begin());
                yielding.end_mine();
                assert!(yielding.is_any(), "of another thread");
                yielding.end(false);
            });
        });
        assert!(!yielding.is_mine() && !yields());
        // Until the worker has noticed, the watcher says it again.
        assert!(yielding.is_any() && !yielding.begin());
        assert!(set(0, libc::SCHED_IDLE));
        yielding.end(false);
        assert!(!yields());
        yielding.end_mine();
        assert!(!yielding.is_any() && yielding.begin());
        yielding.stop();
        assert!(!yields());
        yielding.end_mine();
        assert!(!yielding.begin() && !yields());
    }

    #[test]
    fn failures_one_after_the_other_make_longer_pauses() {
        if !may_yield() {
            return;
        }
        let yielding = IdlePolicy::default();
        let fail = || {
            yielding.forgive();
            assert!(yielding.begin());
            yielding.end(true);
            yielding.end(true);
            yielding.end_mine();
            assert!(!yielding.begin());
            yielding.pause.load(SeqCst)
        };
        assert_eq!([fail(), fail(), fail()], [100, 200, 400]);
        for _ in 0..10 {
            fail();
        }
        assert_eq!(fail(), LONGEST_PAUSE);
    }
}
