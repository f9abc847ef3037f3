//! Threads that carry long requests out, so that no other request of the queue waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::serve::execute::{KernelRequest, RequestExecutor};
use crate::wire::ring::TagBuffer;

/// The threads of a device besides those of its queues.
const HELPERS_MAX: usize = 15;

/// A request with its buffer.
pub(crate) struct QueueJob {
    pub(crate) tag: u16,
    pub(crate) request: KernelRequest,
    pub(crate) buffer: TagBuffer,
    pub(crate) from: Arc<QueueMailbox>,
}

/// A request that was carried out.
pub(crate) struct JobResult {
    pub(crate) tag: u16,
    pub(crate) answer: i32,
    pub(crate) buffer: TagBuffer,
}

/// The orders of other threads for the thread of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueOrder {
    #[default]
    Serve,
    /// Answer what is carried out, begin nothing more, and end. The next process gets the rest.
    Leave,
    /// End, and answer nothing more: the next process carries all of it out again.
    Cut,
}

/// The results and orders that other threads have for the thread of a queue.
pub(crate) struct QueueMailbox {
    contents: Mutex<(Vec<JobResult>, QueueOrder)>,
    wake: OwnedFd,
}

impl QueueMailbox {
    pub(crate) fn new() -> rustix::io::Result<QueueMailbox> {
        Ok(QueueMailbox {
            contents: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// The descriptor that can be read when there is something.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes the results. From now on the descriptor cannot be read.
    pub(crate) fn take(&self) -> Vec<JobResult> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        std::mem::take(&mut self.contents.lock().0)
    }

    pub(crate) fn order(&self) -> QueueOrder {
        self.contents.lock().1
    }

    /// Gives an order. A later one is never weaker.
    pub(crate) fn give(&self, order: QueueOrder) {
        let mut contents = self.contents.lock();
        contents.1 = contents.1.max(order);
        drop(contents);
        self.ring();
    }

    fn put(&self, result: JobResult) {
        self.contents.lock().0.push(result);
        self.ring();
    }

    fn ring(&self) {
        while let Err(Errno::INTR) = rustix::io::write(&self.wake, &1u64.to_ne_bytes()) {}
    }
}

/// The helpers of a device. They end when this is dropped.
pub(crate) struct QueueHelpers {
    jobs: Sender<QueueJob>,
    waiting: Receiver<QueueJob>,
    executor: Arc<RequestExecutor>,
    threads: AtomicUsize,
    /// Jobs that wait or are carried out.
    unfinished: Arc<AtomicUsize>,
}

impl QueueHelpers {
    pub(crate) fn new(executor: Arc<RequestExecutor>) -> QueueHelpers {
        let (jobs, waiting) = unbounded();
        QueueHelpers {
            jobs,
            waiting,
            executor,
            threads: AtomicUsize::new(0),
            unfinished: Arc::default(),
        }
    }

    /// Has a helper carry a job out. Gives it back if there is no helper.
    pub(crate) fn hand_over(&self, job: QueueJob) -> Result<(), QueueJob> {
        let before = self.unfinished.fetch_add(1, Relaxed);
        let threads = self.threads.load(Relaxed);
        if before >= threads && threads < HELPERS_MAX {
            self.start();
        }
        if self.threads.load(Relaxed) == 0 {
            self.unfinished.fetch_sub(1, Relaxed);
            return Err(job);
        }
        self.jobs.send(job).map_err(|error| error.0)
    }

    fn start(&self) {
        let (waiting, executor) = (self.waiting.clone(), Arc::clone(&self.executor));
        let unfinished = Arc::clone(&self.unfinished);
        let help = move || {
            // The thread of the queue has told of a failure.
            let _ = threads::be_flusher();
            for job in waiting {
                finish(&executor, job);
                unfinished.fetch_sub(1, Relaxed);
            }
        };
        match threads::start("ublk-helper", help) {
            Ok(_) => drop(self.threads.fetch_add(1, Relaxed)),
            Err(error) => tracing::warn!(%error, "a device has one thread less than it could use"),
        }
    }
}

fn finish(executor: &RequestExecutor, job: QueueJob) {
    let QueueJob {
        tag,
        request,
        mut buffer,
        from,
    } = job;
    let is_cut = || from.order() == QueueOrder::Cut;
    let mut answer = executor.carry_out(&request, buffer.bytes(), is_cut);
    if RequestExecutor::needs_settling(&request, answer) && !executor.settle(1) {
        answer = -Errno::IO.raw_os_error();
    }
    from.put(JobResult {
        tag,
        answer,
        buffer,
    });
}
