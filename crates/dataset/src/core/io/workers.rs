//! Threads that seal records while their writer goes on, and read ahead of readers.

use std::sync::Arc;

use crossbeam_channel::{Sender, bounded};
use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads. Without threads the caller does the job.
pub(crate) struct Workers {
    queue: Option<Sender<Job>>,
    count: usize,
}

impl Workers {
    /// Starts `count` threads, which end when this is dropped and their jobs are done.
    pub(crate) fn new(count: usize) -> Workers {
        if count == 0 {
            return Workers { queue: None, count };
        }
        let (queue, jobs) = bounded::<Job>(4 * count);
        for n in 0..count {
            let jobs = jobs.clone();
            std::thread::Builder::new()
                .name(format!("seal-{n}"))
                .spawn(move || jobs.into_iter().for_each(|job| job()))
                .expect("threads can be started");
        }
        Workers {
            queue: Some(queue),
            count,
        }
    }

    /// How many threads there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Has a job done, by the caller if all threads have enough to do.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let Some(queue) = &self.queue else {
            return job();
        };
        if let Err(error) = queue.try_send(Box::new(job)) {
            error.into_inner()();
        }
    }

    /// Has a job done if a thread comes free soon; it is forgotten if all have enough to do.
    pub(crate) fn offer(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(queue) = &self.queue {
            let _ = queue.try_send(Box::new(job));
        }
    }
}

/// Counts jobs under way, so that their end can be waited for.
#[derive(Clone, Default)]
pub(crate) struct Pending(Arc<(Mutex<usize>, Condvar)>);

impl Pending {
    /// One more job, until what this returns is dropped.
    pub(crate) fn begin(&self) -> impl Drop + Send + use<> {
        *self.0.0.lock() += 1;
        PendingJob(self.clone())
    }

    /// Waits until there are none.
    pub(crate) fn wait(&self) {
        let mut count = self.0.0.lock();
        while *count > 0 {
            self.0.1.wait(&mut count);
        }
    }
}

struct PendingJob(Pending);

impl Drop for PendingJob {
    fn drop(&mut self) {
        *self.0.0.0.lock() -= 1;
        self.0.0.1.notify_all();
    }
}
