//! Threads that the kernel waits for while memory is short.
//!
//! To get memory, the kernel writes dirty pages to a block device that this process serves. If a thread that serves it
//! then waits for memory, the kernel would wait for the thread and the thread for the kernel. `PR_SET_IO_FLUSHER` says
//! that a thread is one of these: its own requests for memory write nothing back. Threads that it starts are too.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the kernel has a device that this process serves, or had one.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_DONE: Cell<bool> = const { Cell::new(false) };
}

/// The kernel gets a device that this process serves.
pub fn need_flushers() {
    IS_NEEDED.store(true, Ordering::Release);
}

/// To be called by a thread before it works for such a device. Costs nothing if there is none.
///
/// # Errors
/// The first time in a thread: the process may not, because it lacks CAP_SYS_RESOURCE, or the kernel is too old.
pub fn be_flusher() -> std::io::Result<()> {
    if !IS_NEEDED.load(Ordering::Acquire) || IS_DONE.replace(true) {
        return Ok(());
    }
    Ok(rustix::process::configure_io_flusher_behavior(true)?)
}
