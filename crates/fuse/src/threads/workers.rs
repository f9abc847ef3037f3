//! The number of workers that wait for requests at the same time.
//!
//! The kernel wakes the workers that wait in turn. With more of them than requests, each request finds a cold thread,
//! often on another processor. On two cores four waiting workers cost a third of the metadata operations a second.
//! But one is not enough either, since a disk may hold it up. So one worker waits, and a watcher looks at short
//! intervals for requests that wait while all workers are busy. If there are any, it starts one more. When that has
//! not happened for a while, one worker ends. The watcher itself sleeps while there are no requests.
//!
//! So a request may wait for one interval before it is taken. That is little beside the work that made the workers
//! busy for so long.
//!
//! Only the worker that waits is a thread all the time. The watcher starts another one when it is needed, and one
//! that is not needed any more ends. But a worker that waits in the kernel cannot end, and keeps the memory of its
//! largest request. So after a second without requests the watcher has the kernel ping the waiting workers. Each
//! gives its memory back, and then ends or waits again. A ping needs a file that the kernel still knows; without one
//! they wait for the next request.

use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::threads::idle_policy::IdlePolicy;
use crate::wire::reply;

/// The time between two looks of the watcher.
const INTERVAL: Duration = Duration::from_micros(500);
/// The time between two looks while a worker yields. Each look moves the program that shares the worker's processor.
const YIELDING_INTERVAL: Duration = Duration::from_millis(5);
/// After so many looks in a row at which requests lay and all were busy, one worker more is needed. The busy workers
/// may have had other requests each time.
const LYING_LOOKS: u32 = 4;
/// After so many looks in a row at which a worker was idle, it is one too many.
const IDLE_LOOKS: u32 = 100;
/// The number of looks for the end of threads that were sent away. After these the watcher leaves that for the next
/// time.
const ENDING_LOOKS: u32 = 4000;
/// After this time without a request, memory and threads that are not needed are given back.
const QUIET: Duration = Duration::from_secs(1);

/// The workers of a session, by number: those below `waiting` take requests.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    waiting: AtomicUsize,
    stop: AtomicBool,
    /// Number of the last roll call.
    call: AtomicU64,
    all: Vec<Worker>,
    watcher: OnceLock<Thread>,
    watcher_sleeps: AtomicBool,
    /// A file that the kernel knows, or did; 0 if none was seen.
    file: AtomicU64,
    pub(crate) yielding: IdlePolicy,
    /// The steps of all at the watcher's last look.
    seen: AtomicU64,
}

#[derive(Debug, Default)]
struct Worker {
    /// True if there is such a worker, or one is about to be started.
    is_there: AtomicBool,
    /// True if the worker keeps memory that only large requests need.
    is_large: AtomicBool,
    /// Steps taken: odd while it has a request.
    steps: AtomicU64,
    /// True if roll calls do not wait for the request.
    excused: AtomicBool,
    /// The last roll call that it heard, with no request left to answer.
    heard: AtomicU64,
}

impl Worker {
    fn step(&self) {
        // Only the worker itself writes this, so it need not be one operation.
        self.steps.store(self.steps.load(Relaxed) + 1, SeqCst);
    }

    fn is_busy(&self) -> bool {
        self.steps.load(SeqCst) % 2 == 1
    }
}

impl WorkerPool {
    /// Up to `size` workers. Number 0 is there from the beginning, and waits.
    pub(crate) fn new(size: usize) -> WorkerPool {
        let worker = |number| Worker {
            is_there: AtomicBool::new(number == 0),
            ..Worker::default()
        };
        WorkerPool {
            waiting: AtomicUsize::new(1),
            stop: AtomicBool::new(false),
            call: AtomicU64::new(0),
            all: (0..size).map(worker).collect(),
            watcher: OnceLock::new(),
            watcher_sleeps: AtomicBool::new(false),
            file: AtomicU64::new(0),
            yielding: IdlePolicy::default(),
            seen: AtomicU64::new(0),
        }
    }

    /// Returns whether worker `number` is to wait for a request. If not, it has to end.
    pub(crate) fn turn(&self, number: usize) -> bool {
        let worker = &self.all[number];
        loop {
            worker.heard.store(self.call.load(SeqCst), SeqCst);
            if self.stop.load(SeqCst) {
                return false;
            }
            if number < self.waiting.load(SeqCst) {
                return true;
            }
            worker.is_there.store(false, SeqCst);
            // The worker may have been called in that moment. Then it stays; or the watcher has seen that it is not
            // there, and starts another one in its place.
            let is_called = number < self.waiting.load(SeqCst);
            if !is_called || worker.is_there.swap(true, SeqCst) {
                return false;
            }
        }
    }

    /// Says whether worker `number` keeps memory that only large requests need.
    pub(crate) fn keeps_much(&self, number: usize, is_large: bool) {
        let worker = &self.all[number];
        if worker.is_large.load(Relaxed) != is_large {
            worker.is_large.store(is_large, SeqCst);
        }
    }

    /// Notes a file that the kernel knows.
    pub(crate) fn sees(&self, file: u64) {
        if self.file.load(Relaxed) != file {
            self.file.store(file, SeqCst);
        }
    }

    /// Returns whether no memory and no thread can be given back.
    fn is_small(&self) -> bool {
        let mut all = self.all.iter().enumerate();
        all.all(|(number, worker)| {
            let is_there = worker.is_there.load(SeqCst);
            !is_there || (number == 0 && !worker.is_large.load(SeqCst))
        })
    }

    /// Returns whether only one worker waits for requests.
    pub(crate) fn is_alone(&self) -> bool {
        self.waiting.load(Relaxed) == 1
    }

    /// Begins a roll call. A worker that answers it has answered every request that it took before.
    pub(crate) fn call(&self) -> u64 {
        self.call.fetch_add(1, SeqCst) + 1
    }

    /// Returns whether all workers have answered a roll call. A worker that waits for a request answers after the
    /// next one.
    pub(crate) fn have_heard(&self, call: u64) -> bool {
        self.all.iter().all(|worker| {
            let is_excused = || worker.excused.load(SeqCst) && worker.is_busy();
            !worker.is_there.load(SeqCst) || worker.heard.load(SeqCst) >= call || is_excused()
        })
    }

    /// Worker `number` has a request; roll calls need not wait for it if it is `excused`.
    pub(crate) fn begin(&self, number: usize, excused: bool) {
        let worker = &self.all[number];
        worker.excused.store(excused, SeqCst);
        worker.step();
        if self.watcher_sleeps.load(SeqCst) && self.watcher_sleeps.swap(false, SeqCst) {
            self.watcher.get().map(Thread::unpark);
        }
    }

    /// Worker `number` is done with it.
    pub(crate) fn end(&self, number: usize) {
        self.all[number].step();
    }

    /// Sends everyone home. Those in a request, or waiting for one, finish that first.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.watcher.get().map(Thread::unpark);
    }

    /// The loop of the watcher. `start` starts the worker of a number, if that can be done. `reap` joins threads that
    /// have ended, and returns whether no other one is about to end.
    pub(crate) fn watch(
        &self,
        device: impl AsFd,
        start: impl Fn(usize) -> bool,
        reap: impl Fn() -> bool,
    ) {
        let _ = self.watcher.set(thread::current());
        let (mut idle, mut lying, mut before) = (0, 0, 0);
        while !self.stop.load(SeqCst) {
            let interval = self.look_after(&device);
            let waiting = self.waiting.load(SeqCst);
            let steps = self.steps(waiting);
            let Some(steps) = steps else {
                idle += 1;
                (lying, before) = (0, 0);
                if idle < IDLE_LOOKS {
                    thread::park_timeout(interval);
                    continue;
                }
                idle = 0;
                match waiting {
                    1 => self.rest(&device, &reap),
                    _ => self.waiting.store(waiting - 1, SeqCst),
                }
                continue;
            };
            idle = 0;
            lying = if requests_lie(&device) { lying + 1 } else { 0 };
            let stuck = steps == before;
            before = steps;
            if lying > 0 && (stuck || lying >= LYING_LOOKS) {
                lying = 0;
                self.call_another(waiting, &start);
            }
            thread::park_timeout(interval);
        }
        self.yielding.stop();
    }

    /// Ends the yielding of a worker that has not moved on since the last look, or is not alone. How long the watcher
    /// sleeps before it looks again. A worker that only waits loses little.
    fn look_after(&self, device: &impl AsFd) -> Duration {
        if !self.yielding.is_any() {
            return INTERVAL;
        }
        let steps = self
            .all
            .iter()
            .map(|worker| worker.steps.load(SeqCst))
            .sum();
        let moves = steps != self.seen.swap(steps, SeqCst);
        if moves && self.is_alone() {
            return YIELDING_INTERVAL;
        }
        let has_work = self.all.iter().any(Worker::is_busy) || requests_lie(device);
        self.yielding.end(has_work);
        INTERVAL
    }

    fn call_another(&self, waiting: usize, start: &impl Fn(usize) -> bool) {
        let Some(next) = self.all.get(waiting) else {
            return;
        };
        self.yielding.end(false);
        self.waiting.store(waiting + 1, SeqCst);
        if !next.is_there.swap(true, SeqCst) && !start(waiting) {
            next.is_there.store(false, SeqCst);
            self.waiting.store(waiting, SeqCst);
        }
    }

    /// The steps of all who wait or work, together; none if one of them waits.
    fn steps(&self, waiting: usize) -> Option<u64> {
        let all = self.all.iter().take(waiting);
        all.map(|worker| worker.is_busy().then(|| worker.steps.load(SeqCst)))
            .sum()
    }

    /// The watcher sleeps until something is asked. Before it sleeps for long, what is not needed is given
    /// back.
    fn rest(&self, device: &impl AsFd, reap: &impl Fn() -> bool) {
        if !self.is_small() {
            if !self.sleep(Some(Instant::now() + QUIET)) {
                return;
            }
            self.give_back(device);
            for _ in 0..ENDING_LOOKS {
                if reap() || self.stop.load(SeqCst) {
                    break;
                }
                thread::park_timeout(self.look_after(device));
            }
        }
        self.sleep(None);
    }

    /// Pings the waiting workers. The kernel wakes the one that waits longest, but another one may be faster.
    fn give_back(&self, device: &impl AsFd) {
        const ROUNDS: usize = 4;
        for _ in 0..ROUNDS * self.all.len() {
            if self.is_small() || self.stop.load(SeqCst) {
                break;
            }
            if let Err(error) = reply::ping(device.as_fd(), self.file.load(SeqCst)) {
                tracing::debug!(%error, "memory is not given back");
                break;
            }
            thread::park_timeout(INTERVAL);
        }
    }

    /// The watcher sleeps until something is asked, or until then. Whether nothing was asked.
    fn sleep(&self, until: Option<Instant>) -> bool {
        self.watcher_sleeps.store(true, SeqCst);
        // A worker may have begun before it could see that.
        let begun = self.all.iter().any(Worker::is_busy);
        // What that worker has begun with is not ended by anybody while the watcher sleeps. All others wake it first.
        self.yielding.end(false);
        let mut is_over = false;
        while !begun && !is_over && self.watcher_sleeps.load(SeqCst) && !self.stop.load(SeqCst) {
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(rest) => {
                    thread::park_timeout(rest);
                    is_over = Some(Instant::now()) >= until;
                }
            }
        }
        self.watcher_sleeps.swap(false, SeqCst) && is_over
    }
}

/// Returns whether the kernel has requests that no worker has taken.
pub(crate) fn requests_lie(device: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(device, PollFlags::IN)];
    let ready = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    ready.is_ok() && polled[0].revents().contains(PollFlags::IN)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::threads::idle_policy::tests::{may_yield, yields};

    #[test]
    fn one_waits_and_others_are_started_when_they_are_needed() {
        let workers = WorkerPool::new(2);
        let started = Cell::new(0);
        let start = |number| {
            started.set(started.get() + 1);
            number == 1
        };
        assert!(workers.turn(0));
        workers.call_another(1, &start);
        assert!(workers.turn(1) && started.get() == 1);
        workers.call_another(2, &start);
        assert_eq!(workers.waiting.load(SeqCst), 2, "there is no third");
        // It is sent away and called again before it has noticed.
        workers.waiting.store(1, SeqCst);
        workers.call_another(1, &start);
        assert!(workers.turn(1) && started.get() == 1);
        // It is sent away, ends, and is started again.
        workers.waiting.store(1, SeqCst);
        assert!(!workers.turn(1));
        workers.call_another(1, &start);
        assert!(workers.turn(1) && started.get() == 2);
    }

    #[test]
    fn a_worker_that_cannot_be_started_is_not_waited_for() {
        let workers = WorkerPool::new(2);
        workers.call_another(1, &|_| false);
        assert_eq!(workers.waiting.load(SeqCst), 1);
        assert!(workers.turn(0));
        assert!(workers.have_heard(0));
    }

    #[test]
    fn a_worker_that_does_not_get_on_yields_no_longer() {
        if !may_yield() {
            return;
        }
        let (device, kernel) = rustix::pipe::pipe().unwrap();
        let workers = WorkerPool::new(2);
        let look = || workers.look_after(&device);
        let serve = || {
            workers.begin(0, false);
            workers.end(0);
        };
        let begin = || {
            workers.yielding.end_mine();
            workers.yielding.forgive();
            assert!(workers.yielding.begin());
            serve();
            assert_eq!(look(), YIELDING_INTERVAL);
            assert!(yields());
        };
        assert_eq!(look(), INTERVAL);
        // It serves one request after the other.
        begin();
        for _ in 0..3 {
            serve();
            assert_eq!(look(), YIELDING_INTERVAL);
        }
        // It only waits: that is no failure.
        assert_eq!(look(), INTERVAL);
        assert!(!yields() && !workers.yielding.is_mine());
        workers.yielding.end_mine();
        assert!(workers.yielding.may_begin());

        // It serves one for long.
        begin();
        workers.begin(0, false);
        assert_eq!(look(), YIELDING_INTERVAL);
        assert_eq!(look(), INTERVAL);
        workers.end(0);
        workers.yielding.end_mine();
        assert!(!yields() && !workers.yielding.may_begin());

        // It takes no request although there is one.
        begin();
        rustix::io::write(&kernel, b"request").unwrap();
        assert_eq!(look(), INTERVAL);
        workers.yielding.end_mine();
        assert!(!yields() && !workers.yielding.may_begin());

        // Another one is called, and moves on.
        begin();
        workers.call_another(1, &|_| true);
        assert!(!yields());
        workers.yielding.end_mine();
        assert!(workers.yielding.begin());
        serve();
        assert_eq!(look(), INTERVAL);
        assert!(!yields());
    }

    #[test]
    fn nobody_yields_while_the_watcher_sleeps_and_after_the_end() {
        if !may_yield() {
            return;
        }
        let workers = WorkerPool::new(1);
        assert!(workers.yielding.begin());
        workers.sleep(Some(Instant::now()));
        assert!(!yields());
        workers.yielding.end_mine();
        assert!(workers.yielding.begin());
        workers.stop();
        let (device, _kernel) = rustix::pipe::pipe().unwrap();
        workers.watch(&device, |_| true, || true);
        workers.yielding.end_mine();
        assert!(!yields() && !workers.yielding.begin());
    }

    #[test]
    fn all_end_at_the_end() {
        let workers = WorkerPool::new(4);
        (1..4).for_each(|number| workers.call_another(number, &|_| true));
        assert!((0..4).all(|number| workers.turn(number)));
        workers.stop();
        assert!((0..4).all(|number| !workers.turn(number)));
    }

    #[test]
    fn what_is_kept_is_known() {
        let workers = WorkerPool::new(2);
        assert!(workers.is_small());
        workers.keeps_much(0, true);
        assert!(!workers.is_small());
        workers.keeps_much(0, false);
        assert!(workers.is_small());
        workers.call_another(1, &|_| true);
        assert!(!workers.is_small());
        workers.waiting.store(1, SeqCst);
        assert!(!workers.turn(1) && workers.is_small());
    }

    #[test]
    fn a_roll_call_waits_for_what_has_been_taken() {
        let workers = WorkerPool::new(2);
        assert!(workers.turn(0));
        let call = workers.call();
        // It may have taken a request that it has not begun with.
        assert!(!workers.have_heard(call));
        workers.begin(0, false);
        assert!(!workers.have_heard(call));
        workers.end(0);
        // The answer may not have been written.
        assert!(!workers.have_heard(call));
        assert!(workers.turn(0));
        assert!(workers.have_heard(call));
        let call = workers.call();
        workers.begin(0, true);
        assert!(workers.have_heard(call));
        workers.end(0);
        assert!(!workers.have_heard(call));
    }

    #[test]
    fn steps_are_counted_only_while_all_are_busy() {
        let workers = WorkerPool::new(3);
        assert_eq!(workers.steps(1), None);
        workers.begin(0, false);
        assert_eq!(workers.steps(1), Some(1));
        assert_eq!(workers.steps(2), None);
        workers.begin(1, false);
        assert_eq!(workers.steps(2), Some(2));
        workers.end(0);
        assert_eq!(workers.steps(2), None);
        workers.begin(0, false);
        assert_eq!(workers.steps(2), Some(4));
    }
}
