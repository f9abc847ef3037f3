//! Threads that do something on one device while their caller does it on another.
//!
//! They stay for a moment: a program that waits for one flush often waits for another soon, and to start a thread
//! can take longer than a flush.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;

/// A thread that has had nothing to do for so long ends.
const PATIENCE: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;

/// The threads that have nothing to do, the one that came free last at the end.
static IDLE: Mutex<Vec<(ThreadId, Sender<Job>)>> = Mutex::new(Vec::new());

/// Does something on all of some devices at the same time, on the last of them by the caller. No job waits for a
/// thread: a device may be a volume of another pool, whose devices need some too.
pub(crate) fn on_all<T, R>(all: &[Arc<T>], act: fn(&T) -> R) -> Vec<R>
where
    T: Send + Sync + 'static,
    R: Send + 'static,
{
    let Some((last, others)) = all.split_last() else {
        return Vec::new();
    };
    let begin = |one: &Arc<T>| {
        let (one, (tell, told)) = (Arc::clone(one), channel());
        run(Box::new(move || {
            let outcome = act(&one);
            // A thread that learns of it may close the device.
            drop(one);
            let _ = tell.send(outcome);
        }));
        told
    };
    let others: Vec<Receiver<R>> = others.iter().map(begin).collect();
    let own = act(last);
    let others = others.iter().map(|told| told.recv().expect("no panic"));
    others.chain(std::iter::once(own)).collect()
}

fn run(job: Job) {
    let idle = IDLE.lock().pop();
    match idle {
        Some((_, thread)) => thread.send(job).expect("it waits"),
        None => {
            block::be_ordinary();
            drop(std::thread::spawn(move || work(job)));
        }
    }
}

fn work(mut job: Job) {
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
        let barrier = Arc::new(Barrier::new(4));
        let all: Vec<_> = (0..4).map(|_| Arc::clone(&barrier)).collect();
        // None comes back before all have come.
        let act = |barrier: &Barrier| {
            barrier.wait();
            std::thread::current().id()
        };
        let mut threads = HashSet::from([std::thread::current().id()]);
        loop {
            let used = on_all(&all, act);
            assert_eq!(used[3], std::thread::current().id());
            assert_eq!(used.iter().collect::<HashSet<_>>().len(), 4);
            if used[..3].iter().any(|thread| !threads.insert(*thread)) {
                break;
            }
        }
        assert!(on_all(&[], act).is_empty());
    }
}
