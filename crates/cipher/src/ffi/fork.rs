//! Tells a process from its forks, for what must not be used twice.
//!
//! A buffer of unused nonces is copied by `fork`, and then parent and child would both use them.
//! Asking for the process id each time costs a system call, and ids are reused. Instead one page is
//! marked `MADV_WIPEONFORK`: it holds the number of this process's generation, and a child finds
//! zero there, whatever way it was made.

use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The number of this process, unlike that of every ancestor since it first asked.
///
/// `None` if the kernel cannot wipe pages on fork: then nothing that a fork must not repeat may be
/// kept.
pub(crate) fn generation() -> Option<u64> {
    static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    // In ordinary memory: a child goes on counting where its parent was.
    static LAST: AtomicU64 = AtomicU64::new(0);

    let mark = (*MARK.get_or_init(map_mark))?;
    match mark.load(Ordering::Acquire) {
        0 => {
            let fresh = LAST.fetch_add(1, Ordering::AcqRel) + 1;
            match mark.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => Some(fresh),
                Err(other) => Some(other),
            }
        }
        current => Some(current),
    }
}

/// Maps a page of zeros that a child finds zeroed again, for the life of the process.
fn map_mark() -> Option<&'static AtomicU64> {
    const LEN: usize = size_of::<AtomicU64>();
    // SAFETY: a new private mapping at an address of the kernel's choice touches no memory in use.
    let page = unsafe {
        mmap_anonymous(
            null_mut(),
            LEN,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let page = NonNull::new(page.ok()?)?;
    // SAFETY: the range is the mapping just made, and its contents do not matter yet.
    if unsafe { madvise(page.as_ptr(), LEN, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the range is the mapping just made; nothing refers to it.
        let _ = unsafe { munmap(page.as_ptr(), LEN) };
        return None;
    }
    // SAFETY: the mapping is page-aligned, zeroed (zeros are a valid AtomicU64), readable and
    // writable, never unmapped, and accessed in no other way.
    Some(unsafe { page.cast::<AtomicU64>().as_ref() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stable_in_one_process() {
        let first = generation();
        assert!(first.is_some_and(|number| number > 0));
        let elsewhere = std::thread::spawn(generation).join().expect("thread");
        assert_eq!(first, elsewhere);
        assert_eq!(first, generation());
    }

    #[test]
    fn differs_in_a_child_and_in_its_child() {
        let before = generation();
        let differs_below = || {
            let child = generation();
            let grandchild = in_a_fork(|| generation() != child && generation() != before);
            child != before && child == generation() && grandchild
        };
        assert!(in_a_fork(differs_below));
        assert_eq!(generation(), before);
    }

    /// What `test` says in a forked process.
    fn in_a_fork(test: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only touches atomics and then exits without running any destructor, so
        // locks that other threads held at the fork do not matter.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(!test())),
                child => {
                    assert!(child > 0, "fork");
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    status == 0
                }
            }
        }
    }
}
