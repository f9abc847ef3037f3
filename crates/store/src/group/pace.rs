//! Requests whose caller does not wait for ever.
//!
//! Another thread makes the request, with memory of its own. A caller that gives it up leaves both to that thread: the
//! late answer is thrown away. A device with such requests is *slow* until it has answered all of them. Callers that can
//! do without a slow device send it no more requests, so there are at most as many as threads were using it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use block::BlockDevice;

use crate::group::helpers;
use crate::{Error, Result};

/// A read that takes so many times as long as usual is asked of another device.
const READ_FACTOR: u32 = 16;
/// No read is given up earlier: threads that wait for a processor take some milliseconds too.
const READ_MIN: Duration = Duration::from_millis(50);
/// No read is given up later, if another device has the data.
const READ_MAX: Duration = Duration::from_secs(10);
/// No device gets more requests while so many that were given up are not answered.
const UNANSWERED_MAX: usize = 64;
/// The alignment of memory that direct devices require.
const ALIGN: usize = 4096;
/// A limit is waited for in so many parts. A process that was stopped for a while has used up only one of them.
const PARTS: u32 = 8;

/// The response times of a device.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The average time of a read in nanoseconds; 0 before the first one.
    usual: AtomicU64,
    /// Requests that were given up, and are not answered yet.
    unanswered: AtomicUsize,
    /// All requests that were given up.
    given_up: AtomicU64,
}

impl Pace {
    /// Returns whether a request that was given up is not answered yet.
    pub(crate) fn is_slow(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) > 0
    }

    /// Returns whether so many requests are not answered that no more are made, unless a caller waits for them.
    pub(crate) fn is_full(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) >= UNANSWERED_MAX
    }

    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Returns the average time of a read; 0 before the first one.
    pub(crate) fn usual(&self) -> Duration {
        Duration::from_nanos(self.usual.load(Ordering::Relaxed))
    }

    /// Returns the time limit of a read.
    pub(crate) fn read_limit(&self) -> Duration {
        (self.usual() * READ_FACTOR).clamp(READ_MIN, READ_MAX)
    }

    /// Notes how long a read took. Threads that note at once may lose one: it is an average.
    pub(crate) fn note(&self, took: Duration) {
        let took = took.as_nanos() as u64;
        let usual = self.usual.load(Ordering::Relaxed);
        let usual = match usual {
            0 => took,
            _ => usual - usual / 8 + took / 8,
        };
        self.usual.store(usual, Ordering::Relaxed);
    }
}

/// A device that may still carry out requests which were given up.
pub struct LateDevice {
    /// The name of the device.
    pub name: String,
    pub(crate) pace: Arc<Pace>,
}

impl LateDevice {
    /// Returns whether it has answered all of them by now.
    pub fn has_answered(&self) -> bool {
        !self.pace.is_slow()
    }
}

const RUNNING: u8 = 0;
const DONE: u8 = 1;
const GIVEN_UP: u8 = 2;

/// A request that another thread makes.
#[derive(Clone)]
pub(crate) struct Request {
    pace: Arc<Pace>,
    state: Arc<AtomicU8>,
}

impl Request {
    /// Has another thread do something, and pass the outcome on. A panic is a failure.
    pub(crate) fn start<R: Send + 'static>(
        pace: &Arc<Pace>,
        act: impl FnOnce() -> Result<R> + Send + 'static,
        pass_on: impl FnOnce(Result<R>) + Send + 'static,
    ) -> Request {
        let request = Request {
            pace: Arc::clone(pace),
            state: Arc::new(AtomicU8::new(RUNNING)),
        };
        let other = request.clone();
        helpers::run(Box::new(move || {
            let ended = catch_unwind(AssertUnwindSafe(act));
            let outcome = ended.unwrap_or(Err(Error::Panicked));
            other.end();
            pass_on(outcome);
        }));
        request
    }

    /// Waits for the answer no longer.
    pub(crate) fn give_up(&self) {
        let Pace {
            unanswered,
            given_up,
            ..
        } = &*self.pace;
        // Before the other thread can find out, so that the number is never too small.
        unanswered.fetch_add(1, Ordering::AcqRel);
        given_up.fetch_add(1, Ordering::Relaxed);
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let given_up = self
            .state
            .compare_exchange(RUNNING, GIVEN_UP, success, failure);
        if given_up.is_err() {
            unanswered.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn end(&self) {
        if self.state.swap(DONE, Ordering::AcqRel) == GIVEN_UP {
            self.pace.unanswered.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The outcome of a read that another thread makes, if it ends within a limit.
pub(crate) fn ask<R: Send + 'static>(
    pace: &Arc<Pace>,
    limit: Duration,
    read: impl FnOnce() -> Result<R> + Send + 'static,
) -> Option<Result<R>> {
    let (tell, told) = channel();
    let times = Arc::clone(pace);
    let timed = move || {
        let begin = Instant::now();
        let outcome = read();
        times.note(begin.elapsed());
        outcome
    };
    let request = Request::start(pace, timed, move |outcome| drop(tell.send(outcome)));
    let answered = TimeBudget::new(limit).next(&told);
    if answered.is_none() {
        request.give_up();
    }
    answered
}

/// Memory for a read, aligned so that a direct device needs no copy of its own.
pub(crate) struct ReadBuffer {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl ReadBuffer {
    /// Reads so many bytes of a device.
    pub(crate) fn read(device: &dyn BlockDevice, at: u64, len: usize) -> Result<ReadBuffer> {
        let mut memory = vec![0; len + ALIGN];
        let address = memory.as_ptr().addr();
        let begin = address.next_multiple_of(ALIGN) - address;
        device.read_at(at, &mut memory[begin..begin + len])?;
        Ok(ReadBuffer { memory, begin, len })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..][..self.len]
    }
}

/// The rest of a time limit.
pub(crate) struct TimeBudget {
    part: Duration,
    parts: u32,
}

impl TimeBudget {
    pub(crate) fn new(limit: Duration) -> TimeBudget {
        TimeBudget {
            part: limit / PARTS,
            parts: PARTS,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.parts == 0
    }

    /// Returns the next message, or `None` if the limit is over first. Each call spends whole parts.
    pub(crate) fn next<R>(&mut self, told: &Receiver<R>) -> Option<R> {
        while !self.is_over() {
            match told.recv_timeout(self.part) {
                Ok(next) => return Some(next),
                Err(RecvTimeoutError::Timeout) => self.parts -= 1,
                Err(RecvTimeoutError::Disconnected) => {
                    unreachable!("a request passes its outcome on")
                }
            }
        }
        None
    }
}
