//! Memory that the daemon no longer needs goes back to the system.
//!
//! The allocator keeps free memory for a second, and then gives it back with the next allocations. A daemon from
//! which everything was unmounted has none.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// Threads of mounts end in this time. Many mounts that end share one round.
const DELAY: Duration = Duration::from_secs(2);

/// No round is coming.
const IDLE: u8 = 0;
/// A round is coming, for all that asked before it began to wait.
const COMING: u8 = 1;
/// Somebody has asked since: what is freed now may be too late for the round that is coming.
const ASKED: u8 = 2;

static ROUND: AtomicU8 = AtomicU8::new(IDLE);

/// Has free memory given back a moment later, on a thread of its own.
pub(crate) fn give_back_soon() {
    if ROUND.swap(ASKED, Ordering::AcqRel) != IDLE {
        return;
    }
    let started = thread::Builder::new()
        .name("memory".into())
        .spawn(give_back);
    if let Err(error) = started {
        ROUND.store(IDLE, Ordering::Release);
        tracing::debug!(%error, "free memory is kept");
    }
}

/// Gives memory back until nobody has asked while it waited.
fn give_back() {
    loop {
        ROUND.store(COMING, Ordering::Release);
        thread::sleep(DELAY);
        allocator::give_back_memory();
        let is_last = ROUND.compare_exchange(COMING, IDLE, Ordering::AcqRel, Ordering::Acquire);
        if is_last.is_ok() {
            return;
        }
    }
}
