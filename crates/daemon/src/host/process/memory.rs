//! Returns free memory to the system.
//!
//! The allocator keeps free memory for a second, and returns it at later allocations. After everything was unmounted
//! there are no later allocations, so the daemon returns the memory itself.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// The delay of a round. Threads of ended mounts exit in this time, and many mounts share one round.
const DELAY: Duration = Duration::from_secs(2);

/// No round is coming.
const IDLE: u8 = 0;
/// A round will come, for all requests from before it began to wait.
const COMING: u8 = 1;
/// A new request: memory that is freed now may be too late for the coming round.
const ASKED: u8 = 2;

static ROUND: AtomicU8 = AtomicU8::new(IDLE);

/// Requests a round. It runs after [`DELAY`], on a thread of its own.
pub(crate) fn give_back_soon() {
    if ROUND.swap(ASKED, Ordering::AcqRel) != IDLE {
        return;
    }
    if let Err(error) = threads::start("memory", give_back) {
        ROUND.store(IDLE, Ordering::Release);
        tracing::debug!(%error, "free memory is kept");
    }
}

/// Runs rounds until one ends without a new request.
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
