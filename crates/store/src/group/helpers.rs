//! Threads that do something on one device while their caller does it on another.
//!
//! They stay for a moment. A program that waits for one flush often waits for another soon, and to start a thread
//! can take longer than a flush.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;

/// A thread that has had nothing to do for so long ends.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) type HelperJob = Box<dyn FnOnce() + Send>;

/// The threads that have nothing to do, the one that came free last at the end.
static IDLE: Mutex<Vec<(ThreadId, Sender<HelperJob>)>> = Mutex::new(Vec::new());

/// Has another thread do something, or does it here if no thread can be started. No job waits for a thread: a device may
/// be a volume of another pool, whose devices need some too.
pub(crate) fn run(job: HelperJob) {
    let idle = IDLE.lock().pop();
    match idle {
        Some((_, thread)) => thread.send(job).expect("it waits"),
        None => {
            let waiting = Arc::new(Mutex::new(Some(job)));
            let own = Arc::clone(&waiting);
            let begin = move || {
                let job = own.lock().take();
                job.into_iter().for_each(work);
            };
            if threads::start("device", begin).is_err() {
                // Its caller waits for the outcome. The lock is released first, because the job may take long.
                let job = waiting.lock().take();
                job.into_iter().for_each(|job| job());
            }
        }
    }
}

fn work(mut job: HelperJob) {
    let own = std::thread::current().id();
    let (sender, jobs) = channel();
    loop {
        job();
        IDLE.lock().push((own, sender.clone()));
        let next = jobs.recv_timeout(PATIENCE).ok();
        // One that is not idle any more is about to get a job.
        let next = next.or_else(|| if is_gone(own) { None } else { jobs.recv().ok() });
        match next {
            Some(next) => job = next,
            None => return,
        }
    }
}

/// Takes a thread out of those that are idle, if it is one of them.
fn is_gone(thread: ThreadId) -> bool {
    let mut idle = IDLE.lock();
    let at = idle.iter().position(|(idle, _)| *idle == thread);
    at.map(|at| idle.remove(at)).is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn all_are_done_at_the_same_time_and_threads_are_used_again() {
        let mut threads = HashSet::new();
        loop {
            // None comes back before all have come.
            let barrier = Arc::new(Barrier::new(4));
            let (tell, told) = channel();
            for _ in 0..4 {
                let (barrier, tell) = (Arc::clone(&barrier), tell.clone());
                run(Box::new(move || {
                    barrier.wait();
                    let _ = tell.send(std::thread::current().id());
                }));
            }
            drop(tell);
            let used: Vec<ThreadId> = told.iter().collect();
            assert_eq!(used.iter().collect::<HashSet<_>>().len(), 4);
            if used.iter().any(|thread| !threads.insert(*thread)) {
                break;
            }
        }
    }
}
