//! The processor of a worker while one program makes one request after another.
//!
//! A program that waits for each answer and the worker that gives it take turns. On one processor that is a switch of
//! tasks. On two, each turn wakes the other processor, which takes much longer: in a virtual machine several times as
//! long as a small request. The scheduler cannot know that the two only take turns, and puts them together or apart
//! by chance. So a worker that has served small requests of one thread for a while stays on the processor of that
//! thread. From time to time it looks where the thread is.
//!
//! That helps only while the other processors have work: the scheduler wakes the program on an idle one if there is
//! any. So where a processor has nothing else to do, the worker [yields](crate::threads::idle_policy), and the
//! program stays. Something else may still move it: the worker sees that when it finds no request, and follows.
//!
//! Where the worker may not yield, it may run anywhere, and looks for the next request for a moment before it sleeps.
//! Then only the program has to be woken. Only an attempt shows if requests come so soon, because waking the worker
//! may take longer than the moment. So the worker tries, and more and more rarely where most requests come later.
//!
//! This is a matter of speed only: failures are ignored.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::threads::idle_policy::IdlePolicy;
use crate::threads::workers::requests_lie;
use crate::wire::request::{FuseOperation, Request};

/// The number of requests of one thread in a row after which the worker looks where that thread is, again and again.
/// To look costs about as much as to serve a request.
const INTERVAL: u32 = 64;

/// After more requests than this a sync has so much to do that it is work for several processors.
const SYNC_WORK: u32 = 16;

/// To read or write more than this is work for a processor of its own.
const LARGE: usize = 32 << 10;

/// For so long a worker looks for the next request, where more than half of them come so soon.
const SOON: Duration = Duration::from_micros(60);

/// After so many answers in a row to which the asker has asked nothing yet, it is somewhere else.
const MISSES: u32 = 2;

/// The number of times that a yielding worker follows in an interval. More often is not worth it.
const MOVES: u32 = 4;

/// After so many intervals with no idle processor a worker yields no longer.
const BUSY_INTERVALS: u32 = 3;

/// At most so many intervals pass before a worker tries again whether to yield or to look is worth it.
const LONGEST_PAUSE: u32 = 256;

/// A worker, and the thread whose processor it shares.
#[derive(Default)]
pub(crate) struct Affinity {
    /// The number of processors on which the worker may run.
    processors: u32,
    /// The thread that asked last.
    asker: u32,
    /// The number of requests of that thread in a row.
    count: u32,
    /// Requests since the last sync.
    since_sync: u32,
    /// The time of the last answer.
    answered: Option<Instant>,
    /// True if the worker looks for the next request before it sleeps.
    looks: bool,
    /// The number of the counted requests that the worker saw when it looked.
    seen: u32,
    /// True if the worker yields, as far as it knows.
    yields: bool,
    /// The number of times in a row that no request came while it yielded.
    missed: u32,
    /// The number of times that it had to follow in this interval.
    moves: u32,
    /// For how many intervals there has been no idle processor.
    busy: u32,
    /// For how many intervals it tries neither.
    pause: u32,
    /// The length of the last pause.
    last_pause: u32,
    kept: Option<ProcessorPin>,
}

/// A worker that is kept somewhere.
struct ProcessorPin {
    processor: usize,
    /// The processors on which the worker might run before.
    before: CpuSet,
}

impl Affinity {
    /// Makes the state of the calling worker.
    pub(crate) fn new() -> Affinity {
        Affinity {
            processors: sched_getaffinity(None).map_or(1, |all| all.count()),
            ..Affinity::default()
        }
    }

    /// Looks for the next request, for a moment if that is worth it.
    pub(crate) fn look(&mut self, device: BorrowedFd<'_>, yielding: &IdlePolicy) {
        if self.yields {
            match yielding.is_mine() {
                true => return self.stay_together(device, yielding),
                // The watcher has ended it, and has let this worker run anywhere.
                false => self.let_go(yielding),
            }
        }
        let Some(answered) = self.answered.filter(|_| self.looks) else {
            return;
        };
        while answered.elapsed() < SOON {
            if requests_lie(&device) {
                self.seen += 1;
                return;
            }
        }
    }

    /// The asker has asked again by the time that this worker runs, if they share a processor.
    fn stay_together(&mut self, device: BorrowedFd<'_>, yielding: &IdlePolicy) {
        if requests_lie(&device) {
            self.missed = 0;
            return;
        }
        self.missed += 1;
        if self.missed < MISSES {
            return;
        }
        self.missed = 0;
        self.moves += 1;
        if self.moves > MOVES {
            self.stop_yielding(yielding);
            self.rest();
        } else if let Some(processor) = processor_of(self.asker) {
            self.keep_at(processor);
        }
    }

    /// Returns whether the worker yields, as far as it knows.
    pub(crate) fn yields(&self) -> bool {
        self.yields
    }

    /// The request that was seen is answered.
    pub(crate) fn answered(&mut self) {
        self.answered = Some(Instant::now());
    }

    /// Sees a request that this worker is about to serve, and whether it is the only one at work.
    pub(crate) fn see(&mut self, request: &Request<'_>, is_alone: bool, yielding: &IdlePolicy) {
        if !is_alone || self.is_work(request) {
            self.let_go(yielding);
        } else {
            self.note(request.header.pid, yielding);
        }
    }

    /// Returns whether a request is work for another processor: it takes long, or may start threads. Threads run on
    /// the processors of the thread that starts them.
    fn is_work(&mut self, request: &Request<'_>) -> bool {
        self.since_sync = self.since_sync.saturating_add(1);
        match &request.op {
            FuseOperation::Read { len, .. } => *len as usize > LARGE,
            FuseOperation::Write { data, .. } => data.len() > LARGE,
            FuseOperation::Fsync { .. } => std::mem::take(&mut self.since_sync) > SYNC_WORK,
            FuseOperation::Syncfs
            | FuseOperation::CopyFileRange { .. }
            | FuseOperation::Fallocate(_) => true,
            _ => false,
        }
    }

    /// `asker` is 0 for the kernel itself, and for a process outside this PID namespace.
    fn note(&mut self, asker: u32, yielding: &IdlePolicy) {
        if asker == 0 {
            // The kernel forgets inodes and closes files between the requests of any process.
            return;
        }
        if asker != self.asker {
            self.let_go(yielding);
            (self.busy, self.pause, self.last_pause) = (0, 0, 0);
            self.asker = asker;
        }
        self.count += 1;
        if self.count >= INTERVAL {
            let most_were_seen = std::mem::take(&mut self.seen) > INTERVAL / 2;
            self.count = 0;
            self.place(asker, most_were_seen, yielding);
        }
    }

    /// Decides about the next interval. The worker follows `asker`, and yields if there is an idle processor; or it
    /// looks for requests wherever it may run.
    fn place(&mut self, asker: u32, most_were_seen: bool, yielding: &IdlePolicy) {
        if self.yields && !yielding.is_mine() {
            return self.let_go(yielding);
        }
        if self.looks && !most_were_seen {
            self.rest();
        } else if self.yields || self.looks {
            (self.pause, self.last_pause) = (0, 0);
        } else {
            self.pause = self.pause.saturating_sub(1);
        }
        // A program that goes on while the worker closes files runs too.
        let tasks = tasks_running().unwrap_or(u32::MAX);
        let is_busy = self.processors == 1 || tasks > self.processors;
        self.busy = if is_busy { self.busy + 1 } else { 0 };
        let stays = self.yields && self.busy < BUSY_INTERVALS;
        self.moves = 0;
        if !stays {
            self.stop_yielding(yielding);
        }
        let tries = self.pause == 0 && !stays;
        let may_yield = tries && !is_busy && yielding.may_begin();
        self.looks = tries && !may_yield && tasks < self.processors;
        if self.looks {
            return self.stay_nowhere();
        }
        // To get there before it yields: a worker that yields may have to wait for that.
        if let Some(processor) = processor_of(asker) {
            self.keep_at(processor);
        }
        self.yields = stays || may_yield && yielding.begin();
    }

    /// Ends an attempt that was not worth it: the next one is twice as far away as the last.
    fn rest(&mut self) {
        self.last_pause = (self.last_pause * 2).clamp(1, LONGEST_PAUSE);
        self.pause = self.last_pause;
    }

    fn stop_yielding(&mut self, yielding: &IdlePolicy) {
        if std::mem::take(&mut self.yields) {
            yielding.end_mine();
        }
    }

    fn keep_at(&mut self, processor: usize) {
        let before = match &self.kept {
            Some(kept) if kept.processor == processor => return,
            Some(kept) => kept.before,
            None => match sched_getaffinity(None) {
                Ok(before) => before,
                Err(_) => return,
            },
        };
        if processor >= CpuSet::MAX_CPU || !before.is_set(processor) {
            return self.stay_nowhere();
        }
        let mut there = CpuSet::new();
        there.set(processor);
        if sched_setaffinity(None, &there).is_ok() {
            self.kept = Some(ProcessorPin { processor, before });
        }
    }

    /// The worker is free, and sleeps at once, until one program has asked often enough again; or it ends.
    pub(crate) fn let_go(&mut self, yielding: &IdlePolicy) {
        (self.count, self.seen, self.looks) = (0, 0, false);
        self.stop_yielding(yielding);
        self.stay_nowhere();
    }

    /// The worker may run wherever it might before.
    fn stay_nowhere(&mut self) {
        if let Some(kept) = self.kept.take() {
            let _ = sched_setaffinity(None, &kept.before);
        }
    }
}

/// Has the calling thread run wherever the first thread of the process may.
pub(crate) fn be_free() {
    if let Ok(processors) = sched_getaffinity(Some(getpid())) {
        let _ = sched_setaffinity(None, &processors);
    }
}

/// The processor that a thread has last run on.
fn processor_of(thread: u32) -> Option<usize> {
    let mut text = [0; 1024];
    processor_in(read(&format!("/proc/{thread}/stat"), &mut text)?)
}

/// Returns the number of tasks of the machine that run or could run, this one among them.
fn tasks_running() -> Option<u32> {
    let mut text = [0; 128];
    tasks_running_in(read("/proc/loadavg", &mut text)?)
}

fn read<'a>(path: &str, text: &'a mut [u8]) -> Option<&'a str> {
    let len = File::open(path).ok()?.read(text).ok()?;
    std::str::from_utf8(&text[..len]).ok()
}

/// Finds the number before the slash in `0.20 0.18 0.12 1/80 11206`.
fn tasks_running_in(loadavg: &str) -> Option<u32> {
    let (running, _) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    running.parse().ok()
}

/// Finds field 39. The name, which may contain anything, is field 2.
fn processor_in(stat: &str) -> Option<usize> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use zerocopy::FromZeros;

    use super::*;
    use crate::threads::idle_policy::tests::{may_yield, yields};

    fn myself() -> u32 {
        rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned()
    }

    /// A state in which there is always an idle processor.
    fn idle() -> Affinity {
        Affinity {
            processors: u32::MAX,
            asker: myself(),
            ..Affinity::default()
        }
    }

    #[test]
    fn yields_where_it_follows_and_there_is_an_idle_processor() {
        if !may_yield() {
            return;
        }
        let (mut affinity, yielding) = (idle(), IdlePolicy::default());
        affinity.place(myself(), false, &yielding);
        assert!(yields() && affinity.kept.is_some() && !affinity.looks);
        // Now and then there seems to be none.
        affinity.processors = 0;
        for _ in 1..BUSY_INTERVALS {
            affinity.place(myself(), false, &yielding);
            assert!(yields());
        }
        affinity.place(myself(), false, &yielding);
        assert!(!yields() && affinity.kept.is_some());

        affinity.processors = u32::MAX;
        affinity.place(myself(), false, &yielding);
        assert!(yields());
        affinity.note(myself() + 1, &yielding);
        assert!(!yields() && affinity.kept.is_none());
    }

    #[test]
    fn does_not_yield_where_the_asker_is_elsewhere_all_the_time() {
        if !may_yield() {
            return;
        }
        let (requests, kernel) = rustix::pipe::pipe().unwrap();
        let (mut affinity, yielding) = (idle(), IdlePolicy::default());
        affinity.place(myself(), false, &yielding);
        for _ in 0..MISSES * MOVES {
            affinity.look(requests.as_fd(), &yielding);
            assert!(yields());
        }
        for _ in 0..MISSES {
            affinity.look(requests.as_fd(), &yielding);
        }
        assert!(!yields());
        affinity.place(myself(), false, &yielding);
        assert!(yields(), "after a pause of one interval");
        rustix::io::write(&kernel, b"request").unwrap();
        for _ in 0..1000 {
            affinity.look(requests.as_fd(), &yielding);
        }
        assert!(yields(), "it asks at once");
        affinity.let_go(&yielding);
    }

    #[test]
    fn notices_that_the_watcher_has_ended_it() {
        if !may_yield() {
            return;
        }
        let before = sched_getaffinity(None).unwrap();
        let (requests, _kernel) = rustix::pipe::pipe().unwrap();
        let (mut affinity, yielding) = (idle(), IdlePolicy::default());
        for look in [true, false] {
            affinity.place(myself(), false, &yielding);
            assert!(yields() && sched_getaffinity(None).unwrap().count() == 1);
            yielding.end(false);
            assert_eq!(sched_getaffinity(None).unwrap(), before);
            match look {
                true => affinity.look(requests.as_fd(), &yielding),
                false => affinity.place(myself(), false, &yielding),
            }
            assert!(!affinity.yields() && affinity.kept.is_none() && !yielding.is_any());
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        }
    }

    #[test]
    fn follows_one_and_lets_go_for_another() {
        let before = sched_getaffinity(None).unwrap();
        let (mut affinity, yielding) = (Affinity::default(), IdlePolicy::default());
        for _ in 0..INTERVAL - 1 {
            affinity.note(myself(), &yielding);
            affinity.note(0, &yielding);
        }
        assert!(affinity.kept.is_none());
        affinity.note(myself(), &yielding);
        let there = sched_getaffinity(None).unwrap();
        assert_eq!(there.count(), 1);
        let kept = affinity.kept.as_ref().unwrap();
        assert!(there.is_set(kept.processor) && before.is_set(kept.processor));
        affinity.note(myself() + 1, &yielding);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn is_free_where_it_looks() {
        let before = sched_getaffinity(None).unwrap();
        // As if there were always an idle one.
        let mut affinity = Affinity {
            processors: u32::MAX,
            pause: 2,
            ..Affinity::default()
        };
        let yielding = IdlePolicy::of_another();
        affinity.place(myself(), false, &yielding);
        assert!(affinity.kept.is_some() && !affinity.looks);
        affinity.place(myself(), false, &yielding);
        assert!(affinity.looks);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        affinity.note(myself() + 1, &yielding);
        assert!(!affinity.looks);
    }

    #[test]
    fn looks_for_a_moment() {
        let (requests, kernel) = rustix::pipe::pipe().unwrap();
        let yielding = IdlePolicy::default();
        let mut affinity = Affinity {
            looks: true,
            ..Affinity::default()
        };
        affinity.answered();
        affinity.look(requests.as_fd(), &yielding);
        assert_eq!(affinity.seen, 0);
        rustix::io::write(&kernel, b"request").unwrap();
        affinity.answered = Some(Instant::now() + Duration::from_secs(3600));
        affinity.look(requests.as_fd(), &yielding);
        assert_eq!(affinity.seen, 1);
        affinity.looks = false;
        affinity.look(requests.as_fd(), &yielding);
        assert_eq!(affinity.seen, 1);
    }

    #[test]
    fn tries_to_look_less_often_where_that_is_not_worth_it() {
        let mut affinity = Affinity {
            processors: u32::MAX,
            ..Affinity::default()
        };
        let yielding = IdlePolicy::of_another();
        let mut tries = 0;
        for _ in 0..1000 {
            affinity.place(myself(), false, &yielding);
            tries += u32::from(affinity.looks);
        }
        assert!((5..15).contains(&tries), "{tries}");
        affinity.looks = true;
        for _ in 0..10 {
            affinity.place(myself(), true, &yielding);
            assert!(affinity.looks);
        }
        assert_eq!(affinity.last_pause, 0);
    }

    #[test]
    fn a_sync_is_work_after_many_requests_only() {
        let mut affinity = Affinity::default();
        let mut is_work = |op: FuseOperation<'static>| {
            let header = crate::wire::abi::InHeader::new_zeroed();
            affinity.is_work(&Request { header, op })
        };
        for _ in 0..SYNC_WORK {
            assert!(!is_work(FuseOperation::Getattr));
        }
        let sync = || FuseOperation::Fsync { datasync: false };
        assert!(is_work(sync()));
        assert!(!is_work(sync()));
        assert!(!is_work(FuseOperation::Getattr));
        assert!(!is_work(sync()));
    }

    #[test]
    fn goes_nowhere_it_might_not_go_before() {
        let before = sched_getaffinity(None).unwrap();
        let elsewhere = (0..CpuSet::MAX_CPU).find(|cpu| !before.is_set(*cpu));
        let mut affinity = Affinity::default();
        for processor in elsewhere.into_iter().chain([CpuSet::MAX_CPU]) {
            affinity.keep_at(processor);
            assert!(affinity.kept.is_none());
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn finds_the_processor_behind_any_name() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        for name in ["sh", "a) 1 (b", ") ) )"] {
            let stat = format!("17 ({name}) {}", fields.join(" "));
            assert_eq!(processor_in(&stat), Some(39));
        }
        assert_eq!(processor_in("17 (sh) S 1"), None);
        assert_eq!(processor_in(""), None);
        assert_eq!(tasks_running_in("0.20 0.18 0.12 3/80 11206"), Some(3));
        assert_eq!(tasks_running_in("0.20 0.18 0.12"), None);
        assert!(tasks_running() > Some(0));
        assert!(processor_of(myself()).is_some());
        assert_eq!(processor_of(u32::MAX), None);
    }
}
