//! Threads that seal records while the writer goes on, and that read ahead.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

type WorkerJob = Box<dyn FnOnce() + Send>;

/// Threads for the jobs of all pools. Each pool has a queue of its own, and the pools take turns. So a pool with slow
/// devices does not fill the queue of another pool. Without threads the caller does the job.
pub(crate) struct SealWorkers {
    shared: Arc<WorkerState>,
    count: usize,
}

#[derive(Default)]
struct WorkerState {
    queues: Mutex<Queues>,
    /// Notified when there is a job, or when the threads must end.
    has_more: Condvar,
}

#[derive(Default)]
struct Queues {
    /// The waiting jobs, by pool. No queue is empty.
    waiting: BTreeMap<u64, VecDeque<WorkerJob>>,
    /// The pool that had the last turn.
    last: u64,
    is_over: bool,
}

impl Queues {
    /// The next job of a pool.
    fn take(&mut self, pool: u64) -> Option<WorkerJob> {
        let queue = self.waiting.get_mut(&pool)?;
        let job = queue.pop_front();
        // An empty queue would get a turn.
        if queue.is_empty() {
            self.waiting.remove(&pool);
        }
        job
    }

    /// The next job of the pool whose turn it is.
    fn next(&mut self) -> Option<WorkerJob> {
        let mut pools = self.waiting.keys();
        let behind = pools.clone().find(|pool| **pool > self.last);
        // The next pool by number, then the first one: each pool has its turn.
        self.last = *behind.or_else(|| pools.next())?;
        self.take(self.last)
    }
}

impl WorkerState {
    fn work(&self) {
        let mut queues = self.queues.lock();
        loop {
            match queues.next() {
                Some(job) => MutexGuard::unlocked(&mut queues, || {
                    // Where it may not, the thread of the device has said so.
                    let _ = threads::be_flusher();
                    job();
                }),
                // Jobs that wait are done first: their datasets wait for them.
                None if queues.is_over => return,
                None => self.has_more.wait(&mut queues),
            }
        }
    }
}

impl SealWorkers {
    /// Starts `wanted` threads, or as many as the system allows: without any, each caller does its jobs. They end when
    /// this is dropped and their jobs are done.
    pub(crate) fn new(wanted: usize) -> SealWorkers {
        let shared = Arc::<WorkerState>::default();
        let start = |n| {
            let shared = Arc::clone(&shared);
            threads::start(format!("seal-{n}"), move || shared.work())
        };
        let count = (0..wanted).map_while(|n| start(n).ok()).count();
        SealWorkers { shared, count }
    }

    /// The number of threads.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Queues a job of a pool. If the queue of this pool is full, the caller does the job.
    pub(crate) fn run(&self, pool: u64, job: impl FnOnce() + Send + 'static) {
        if let Err(job) = self.queue(pool, Box::new(job)) {
            job();
        }
    }

    /// Queues a job of a pool that need not be done. If the queue of this pool is full, the job is dropped.
    pub(crate) fn offer(&self, pool: u64, job: impl FnOnce() + Send + 'static) {
        drop(self.queue(pool, Box::new(job)));
    }

    fn queue(&self, pool: u64, job: WorkerJob) -> Result<(), WorkerJob> {
        let mut queues = self.shared.queues.lock();
        let waiting = queues.waiting.get(&pool).map_or(0, VecDeque::len);
        if waiting >= 4 * self.count {
            return Err(job);
        }
        queues.waiting.entry(pool).or_default().push_back(job);
        // Woken without the lock, so that the thread does not wait for it at once.
        drop(queues);
        self.shared.has_more.notify_one();
        Ok(())
    }

    /// Waits until these jobs of a pool are done. Meanwhile the caller does waiting jobs of the pool, because all
    /// threads may be waiting for the devices of another pool. It stops when its own jobs are done.
    pub(crate) fn finish(&self, pool: u64, own: &[RunningJobs]) {
        let next = || self.shared.queues.lock().take(pool);
        while own.iter().any(RunningJobs::is_under_way) {
            let Some(job) = next() else { break };
            job();
        }
        own.iter().for_each(RunningJobs::wait);
    }
}

impl Drop for SealWorkers {
    fn drop(&mut self) {
        self.shared.queues.lock().is_over = true;
        self.shared.has_more.notify_all();
    }
}

/// Counts running jobs, so that a thread can wait for their end.
#[derive(Clone, Default)]
pub(crate) struct RunningJobs(Arc<(Mutex<usize>, Condvar)>);

impl RunningJobs {
    /// Counts a job.
    pub(crate) fn begin(&self) -> RunningJob {
        *self.0.0.lock() += 1;
        RunningJob(self.clone())
    }

    fn is_under_way(&self) -> bool {
        *self.0.0.lock() > 0
    }

    /// Waits until no job runs.
    pub(crate) fn wait(&self) {
        let mut count = self.0.0.lock();
        while *count > 0 {
            self.0.1.wait(&mut count);
        }
    }
}

/// A job that a [`RunningJobs`] counts until this is dropped.
pub(crate) struct RunningJob(RunningJobs);

impl Drop for RunningJob {
    fn drop(&mut self) {
        debug_assert!(*self.0.0.0.lock() > 0, "each job is counted once");
        *self.0.0.0.lock() -= 1;
        self.0.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    #[test]
    fn a_pool_that_does_not_come_on_keeps_no_other_waiting() {
        const SLOW: u64 = 1;
        const OTHER: u64 = 2;
        let workers = SealWorkers::new(1);
        let (go_on, wait) = channel::<()>();
        let (begun, has_begun) = channel();
        workers.run(SLOW, move || {
            begun.send(()).unwrap();
            wait.recv().unwrap();
        });
        has_begun.recv().unwrap();
        let (done, is_done) = channel();
        let job = |name: &'static str| {
            let done = done.clone();
            move || done.send(name).unwrap()
        };
        for n in 0..4 {
            workers.run(SLOW, job("slow"));
            if n > 0 {
                workers.run(OTHER, job("other"));
            }
        }
        assert!(is_done.try_recv().is_err(), "the only thread is busy");
        // The queue of this pool is full.
        workers.run(SLOW, job("by the caller"));
        assert_eq!(is_done.try_recv(), Ok("by the caller"));
        let pending = RunningJobs::default();
        let last = (pending.begin(), job("other"));
        workers.run(OTHER, move || {
            let (_own, job) = last;
            job();
        });
        workers.finish(OTHER, &[pending]);
        let all: Vec<_> = is_done.try_iter().collect();
        assert_eq!(all, ["other"; 4]);

        workers.run(OTHER, job("other"));
        go_on.send(()).unwrap();
        let turns: Vec<_> = is_done.iter().take(5).collect();
        assert_eq!(turns, ["other", "slow", "slow", "slow", "slow"]);
    }

    #[test]
    fn a_caller_waits_for_its_own_jobs_and_not_for_a_neighbour_who_streams() {
        const POOL: u64 = 1;
        const BUSY: u64 = 2;
        let workers = Arc::new(SealWorkers::new(1));
        let (go_on, wait) = channel::<()>();
        let (begun, has_begun) = channel();
        workers.run(BUSY, move || {
            begun.send(()).unwrap();
            wait.recv().unwrap();
        });
        has_begun.recv().unwrap();

        // Each job of the other pool queues the next one.
        fn stream(workers: &Arc<SealWorkers>, done: Sender<usize>, n: usize) {
            let again = Arc::clone(workers);
            workers.run(POOL, move || {
                done.send(n).unwrap();
                if n < 100 {
                    stream(&again, done, n + 1);
                }
            });
        }
        let (done, is_done) = channel();
        stream(&workers, done, 0);
        let pending = RunningJobs::default();
        let own = pending.begin();
        workers.run(POOL, move || drop(own));
        workers.finish(POOL, &[pending]);
        assert_eq!(is_done.try_iter().collect::<Vec<_>>(), [0]);
        go_on.send(()).unwrap();
    }
}
