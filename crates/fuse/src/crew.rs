//! How many workers wait for requests at the same time.
//!
//! The kernel wakes the workers that wait in turn, so with more of them than there are requests
//! each request finds a cold thread, often on another processor: on two cores four waiting workers
//! cost a third of the metadata operations a second. But one is not enough either, since it may be
//! held up by a disk. So one worker waits, the others sleep, and a watcher looks at short intervals
//! whether requests are left lying while all who could take them are busy; then it wakes one more.
//! When that has not happened for a while, one is sent to sleep. The watcher itself sleeps while
//! nothing is asked.
//!
//! A request may thus lie for one interval before it is taken. That is little beside what made the
//! workers busy for so long.

use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

/// How often the watcher looks.
const INTERVAL: Duration = Duration::from_micros(500);
/// After so many looks at which requests lay and all were busy, though not with the same ones, there
/// is one too few.
const LYING_LOOKS: u32 = 4;
/// After so many looks at which a worker was idle, there is one too many.
const IDLE_LOOKS: u32 = 100;

/// The workers of a session, by number: those below `waiting` take requests.
#[derive(Debug)]
pub(crate) struct Crew {
    waiting: AtomicUsize,
    stop: AtomicBool,
    /// Number of the last roll call.
    call: AtomicU64,
    members: Vec<Member>,
    watcher: OnceLock<Thread>,
    watcher_sleeps: AtomicBool,
}

#[derive(Debug, Default)]
struct Member {
    thread: OnceLock<Thread>,
    /// Steps taken: odd while it has a request.
    steps: AtomicU64,
    /// Whether roll calls do not wait for the request.
    excused: AtomicBool,
    /// The last roll call that it heard, with no request left to answer.
    heard: AtomicU64,
    asleep: AtomicBool,
}

impl Member {
    fn step(&self) {
        // Only the worker itself writes this, so it need not be one operation.
        self.steps.store(self.steps.load(Relaxed) + 1, SeqCst);
    }

    fn is_busy(&self) -> bool {
        self.steps.load(SeqCst) % 2 == 1
    }
}

impl Crew {
    /// A crew of up to `size` workers, one of them waiting.
    pub(crate) fn new(size: usize) -> Crew {
        Crew {
            waiting: AtomicUsize::new(1),
            stop: AtomicBool::new(false),
            call: AtomicU64::new(0),
            members: (0..size).map(|_| Member::default()).collect(),
            watcher: OnceLock::new(),
            watcher_sleeps: AtomicBool::new(false),
        }
    }

    /// Says that this thread is worker `number`.
    pub(crate) fn join(&self, number: usize) {
        let _ = self.members[number].thread.set(thread::current());
    }

    /// Sleeps until worker `number` is to wait for a request; false if it is to end.
    pub(crate) fn turn(&self, number: usize) -> bool {
        let member = &self.members[number];
        loop {
            member.heard.store(self.call.load(SeqCst), SeqCst);
            if self.stop.load(SeqCst) {
                return false;
            }
            if number < self.waiting.load(SeqCst) {
                return true;
            }
            member.asleep.store(true, SeqCst);
            thread::park();
            member.asleep.store(false, SeqCst);
        }
    }

    /// Whether only one worker waits for requests.
    pub(crate) fn is_alone(&self) -> bool {
        self.waiting.load(Relaxed) == 1
    }

    /// Begins a roll call. Whoever hears it has answered every request that it took before.
    pub(crate) fn call(&self) -> u64 {
        self.call.fetch_add(1, SeqCst) + 1
    }

    /// Whether all have heard a roll call. One who waits for a request hears it after the next one.
    pub(crate) fn have_heard(&self, call: u64) -> bool {
        self.members.iter().all(|member| {
            let is_excused = || member.excused.load(SeqCst) && member.is_busy();
            member.asleep.load(SeqCst) || member.heard.load(SeqCst) >= call || is_excused()
        })
    }

    /// Worker `number` has a request; roll calls need not wait for it if it is `excused`.
    pub(crate) fn begin(&self, number: usize, excused: bool) {
        let member = &self.members[number];
        member.excused.store(excused, SeqCst);
        member.step();
        if self.watcher_sleeps.load(SeqCst) && self.watcher_sleeps.swap(false, SeqCst) {
            self.watcher.get().map(Thread::unpark);
        }
    }

    /// Worker `number` is done with it.
    pub(crate) fn end(&self, number: usize) {
        self.members[number].step();
    }

    /// Sends everyone home. Those in a request, or waiting for one, finish that first.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        let members = self.members.iter().filter_map(|member| member.thread.get());
        members.chain(self.watcher.get()).for_each(Thread::unpark);
    }

    /// What the watcher does until the end.
    pub(crate) fn watch(&self, device: impl AsFd) {
        let _ = self.watcher.set(thread::current());
        let (mut idle, mut lying, mut before) = (0, 0, 0);
        while !self.stop.load(SeqCst) {
            let waiting = self.waiting.load(SeqCst);
            let steps = self.steps(waiting);
            let Some(steps) = steps else {
                idle += 1;
                (lying, before) = (0, 0);
                if idle < IDLE_LOOKS {
                    thread::park_timeout(INTERVAL);
                    continue;
                }
                idle = 0;
                match waiting {
                    1 => self.sleep(),
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
                self.wake_another(waiting);
            }
            thread::park_timeout(INTERVAL);
        }
    }

    fn wake_another(&self, waiting: usize) {
        if let Some(next) = self.members.get(waiting) {
            self.waiting.store(waiting + 1, SeqCst);
            next.thread.get().map(Thread::unpark);
        }
    }

    /// The steps of all who wait or work, together; none if one of them waits.
    fn steps(&self, waiting: usize) -> Option<u64> {
        let members = self.members.iter().take(waiting);
        members
            .map(|member| member.is_busy().then(|| member.steps.load(SeqCst)))
            .sum()
    }

    /// The watcher sleeps until something is asked.
    fn sleep(&self) {
        self.watcher_sleeps.store(true, SeqCst);
        // Someone may have begun before that could be seen.
        let begun = self.members.iter().any(Member::is_busy);
        while !begun && self.watcher_sleeps.load(SeqCst) && !self.stop.load(SeqCst) {
            thread::park();
        }
        self.watcher_sleeps.store(false, SeqCst);
    }
}

/// Whether the kernel has requests that nobody has taken.
pub(crate) fn requests_lie(device: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(device, PollFlags::IN)];
    let ready = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    ready.is_ok() && polled[0].revents().contains(PollFlags::IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_waits_and_the_others_sleep_until_they_are_needed() {
        let crew = Arc::new(Crew::new(2));
        assert!(crew.turn(0));
        let other = Arc::clone(&crew);
        let second = thread::spawn(move || {
            other.join(1);
            other.turn(1)
        });
        crew.wake_another(1);
        assert!(second.join().unwrap());
        crew.wake_another(2);
        assert_eq!(crew.waiting.load(SeqCst), 2, "there is no third");
    }

    #[test]
    fn all_end_at_the_end() {
        let crew = Arc::new(Crew::new(4));
        let sleepers: Vec<_> = (1..4)
            .map(|number| {
                let crew = Arc::clone(&crew);
                thread::spawn(move || {
                    crew.join(number);
                    crew.turn(number)
                })
            })
            .collect();
        crew.stop();
        assert!(!crew.turn(0));
        assert!(sleepers.into_iter().all(|sleeper| !sleeper.join().unwrap()));
    }

    #[test]
    fn a_roll_call_waits_for_what_has_been_taken() {
        let crew = Crew::new(2);
        assert!(crew.turn(0));
        crew.members[1].asleep.store(true, SeqCst);
        let call = crew.call();
        // It may have taken a request that it has not begun with.
        assert!(!crew.have_heard(call));
        crew.begin(0, false);
        assert!(!crew.have_heard(call));
        crew.end(0);
        // The answer may not have been written.
        assert!(!crew.have_heard(call));
        assert!(crew.turn(0));
        assert!(crew.have_heard(call));
        let call = crew.call();
        crew.begin(0, true);
        assert!(crew.have_heard(call));
        crew.end(0);
        assert!(!crew.have_heard(call));
    }

    #[test]
    fn steps_are_counted_only_while_all_are_busy() {
        let crew = Crew::new(3);
        assert_eq!(crew.steps(1), None);
        crew.begin(0, false);
        assert_eq!(crew.steps(1), Some(1));
        assert_eq!(crew.steps(2), None);
        crew.begin(1, false);
        assert_eq!(crew.steps(2), Some(2));
        crew.end(0);
        assert_eq!(crew.steps(2), None);
        crew.begin(0, false);
        assert_eq!(crew.steps(2), Some(4));
    }
}
