//! Memory that the daemon no longer needs goes back to the system.
//!
//! The allocator keeps free memory for a second, and then gives it back with the next allocations. A daemon from
//! which everything was unmounted has none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Threads of mounts end in this time. Many mounts that end share one round.
const DELAY: Duration = Duration::from_secs(2);

static IS_COMING: AtomicBool = AtomicBool::new(false);

/// Has free memory given back a moment later, on a thread of its own.
pub(crate) fn give_back_soon() {
    if IS_COMING.swap(true, Ordering::AcqRel) {
        return;
    }
    let give_back = || {
        thread::sleep(DELAY);
        IS_COMING.store(false, Ordering::Release);
        allocator::give_back_memory();
    };
    let started = thread::Builder::new()
        .name("memory".into())
        .spawn(give_back);
    if let Err(error) = started {
        IS_COMING.store(false, Ordering::Release);
        tracing::debug!(%error, "free memory is kept");
    }
}
