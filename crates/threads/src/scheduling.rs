//! Threads that inherit nothing of the scheduling of their starter.
//!
//! A worker that serves one program stays on its processor, and may yield it to everything else (see `affinity` in
//! the crate `fuse`). The kernel gives both to the threads that the worker starts. A new thread could change that
//! only once it runs, which may take long then. So the worker becomes ordinary before it starts one.

// The standard library and rustix have no policies.
#![allow(unsafe_code)]

use rustix::process::getpid;
use rustix::thread::{Pid, sched_getaffinity, sched_setaffinity};

/// Gives the calling thread the processors and the policy of the first thread of the process. To be called before a
/// thread is started while a request of a file system is carried out. What fails is left alone.
pub fn be_ordinary() {
    let first = getpid();
    if let Ok(processors) = sched_getaffinity(Some(first)) {
        let _ = sched_setaffinity(None, &processors);
    }
    if policy(None) == libc::SCHED_IDLE && policy(Some(first)) == libc::SCHED_OTHER {
        set_policy(libc::SCHED_OTHER);
    }
}

/// The policy of a thread, or of the calling one. The functions of musl only say that they are missing: in POSIX they
/// are about processes. So the kernel is called without them.
fn policy(thread: Option<Pid>) -> i32 {
    // SAFETY: takes a number; 0 is the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, Pid::as_raw(thread)) };
    i32::try_from(policy).unwrap_or(-1)
}

fn set_policy(policy: i32) -> bool {
    // The `sched_param` of the kernel: a priority. That of musl has more fields.
    let priority: i32 = 0;
    // SAFETY: the number lives longer than the call, which only reads it.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::thread::{CpuSet, sched_getcpu};

    use super::*;

    #[test]
    fn nothing_is_inherited() {
        // On threads that end.
        let worker = || {
            let before = sched_getaffinity(None).unwrap();
            let mut here = CpuSet::new();
            here.set(sched_getcpu());
            sched_setaffinity(None, &here).unwrap();
            assert!(set_policy(libc::SCHED_IDLE));
            let started = || (sched_getaffinity(None).unwrap(), policy(None));
            let inherited = thread::scope(|scope| scope.spawn(started).join().unwrap());
            assert_eq!(inherited, (here, libc::SCHED_IDLE));
            be_ordinary();
            let (processors, policy) = thread::scope(|scope| scope.spawn(started).join().unwrap());
            assert_eq!(processors, before);
            // To end it takes CAP_SYS_NICE.
            assert!(policy == libc::SCHED_OTHER || !set_policy(libc::SCHED_OTHER));
        };
        thread::scope(|scope| scope.spawn(worker).join().unwrap());
    }
}
