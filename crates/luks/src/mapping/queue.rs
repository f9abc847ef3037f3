//! The pool of threads that serves requests in the queued form.
//!
//! What travels between threads is owned: a buffer and where to send it when it is done. The buffers
//! come from a pool and go back to it, and each thread that asks has one channel for its answers, so that
//! a request allocates nothing once it runs. Buffers in which plaintext was are wiped before they go back.

use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::sectors::{Gather, PIECE};
use super::serving::Serving;

/// Places in the queue for each thread. A caller that finds the queue full waits.
const PLACES: usize = 4;

pub(super) struct Queue {
    /// `None` when it ends.
    jobs: Option<Sender<Job>>,
    spare: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    threads: Vec<JoinHandle<()>>,
}

struct Job {
    /// It is given back before the answer: who asked may replace it then, and its key is to be gone.
    serving: Arc<Serving>,
    is_write: bool,
    offset: u64,
    buffer: Vec<u8>,
    answer: Sender<Answer>,
}

struct Answer {
    offset: u64,
    buffer: Vec<u8>,
    result: block::Result<()>,
}

thread_local! {
    /// Where this thread gets its answers. It waits for all of a request before the next.
    static ANSWERS: (Sender<Answer>, Receiver<Answer>) = unbounded();
}

impl Queue {
    /// Starts a thread for each processor.
    pub(super) fn start() -> Queue {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let (jobs, waiting) = bounded(PLACES * count);
        let spawn = |n| {
            let waiting: Receiver<Job> = waiting.clone();
            let thread = std::thread::Builder::new().name(format!("luks-{n}"));
            thread.spawn(move || serve(&waiting)).ok()
        };
        Queue {
            jobs: Some(jobs),
            spare: bounded(2 * PLACES * count),
            threads: (0..count).filter_map(spawn).collect(),
        }
    }

    pub(super) fn read(
        &self,
        serving: &Arc<Serving>,
        offset: u64,
        buf: &mut [u8],
    ) -> block::Result<()> {
        ANSWERS.with(|(answer, answers)| {
            let mut sent = 0;
            for (n, piece) in buf.chunks(PIECE).enumerate() {
                let mut buffer = self.buffer();
                buffer.resize(piece.len(), 0);
                let at = offset + (n * PIECE) as u64;
                sent += usize::from(self.send(serving, false, at, buffer, answer));
            }
            self.collect(sent, buf.len().div_ceil(PIECE), answers, |answer| {
                let at = (answer.offset - offset) as usize;
                buf[at..at + answer.buffer.len()].copy_from_slice(&answer.buffer);
                answer.buffer.fill(0);
            })
        })
    }

    pub(super) fn write(
        &self,
        serving: &Arc<Serving>,
        offset: u64,
        len: usize,
        pieces: &[IoSlice<'_>],
    ) -> block::Result<()> {
        let mut rest = Gather::new(pieces);
        ANSWERS.with(|(answer, answers)| {
            let mut sent = 0;
            for at in (0..len).step_by(PIECE) {
                let mut buffer = self.buffer();
                buffer.clear();
                rest.take(PIECE.min(len - at), &mut buffer);
                let at = offset + at as u64;
                sent += usize::from(self.send(serving, true, at, buffer, answer));
            }
            self.collect(sent, len.div_ceil(PIECE), answers, |_| {})
        })
    }

    fn buffer(&self) -> Vec<u8> {
        self.spare
            .1
            .try_recv()
            .unwrap_or_else(|_| Vec::with_capacity(PIECE))
    }

    fn send(
        &self,
        serving: &Arc<Serving>,
        is_write: bool,
        offset: u64,
        buffer: Vec<u8>,
        answer: &Sender<Answer>,
    ) -> bool {
        let job = Job {
            serving: Arc::clone(serving),
            is_write,
            offset,
            buffer,
            answer: answer.clone(),
        };
        // Without a thread (none could be started) a request would never be answered.
        !self.threads.is_empty()
            && self
                .jobs
                .as_ref()
                .is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Waits for all answers, also after one that is an error: the next request shall not get them.
    fn collect(
        &self,
        sent: usize,
        wanted: usize,
        answers: &Receiver<Answer>,
        mut take: impl FnMut(&mut Answer),
    ) -> block::Result<()> {
        let mut result = Ok(());
        for _ in 0..sent {
            let Ok(mut answer) = answers.recv() else {
                break;
            };
            match std::mem::replace(&mut answer.result, Ok(())) {
                Ok(()) => take(&mut answer),
                error if result.is_ok() => result = error,
                _ => {}
            }
            let _ = self.spare.0.try_send(answer.buffer);
        }
        match sent == wanted {
            true => result,
            false => Err(no_threads()),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(waiting: &Receiver<Job>) {
    for mut job in waiting {
        let serving = job.serving;
        let act = || match job.is_write {
            true => serving.write_piece(job.offset, &mut job.buffer, false),
            false => serving.read_piece(job.offset, &mut job.buffer),
        };
        // Who asked waits, and must not do so for ever.
        let result = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(no_threads()));
        drop(serving);
        let answer = Answer {
            offset: job.offset,
            buffer: job.buffer,
            result,
        };
        let _ = job.answer.send(answer);
    }
}

fn no_threads() -> block::Error {
    block::Error::Io {
        device: "the mapping".into(),
        operation: "queue",
        offset: 0,
        len: 0,
        source: io::Error::other("a thread of its queue could not be started, or ended"),
    }
}
