//! Threads that the kernel waits for while memory is short.
//!
//! To get memory, the kernel writes dirty pages to a block device that this process serves. If a thread of the device
//! waited for memory then, the kernel and the thread would wait for each other. `PR_SET_IO_FLUSHER` marks a thread of
//! this kind: its own requests for memory write no pages. Threads that it starts inherit the mark.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if the kernel has a device that this process serves, or had one.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_DONE: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the kernel gets a device that this process serves.
pub fn need_flushers() {
    IS_NEEDED.store(true, Ordering::Release);
}

/// Marks the calling thread, which is about to work for the kernel's device. It does nothing if there is no device.
///
/// # Errors
/// On the first call of a thread: the process lacks CAP_SYS_RESOURCE, or the kernel is too old.
pub fn be_flusher() -> std::io::Result<()> {
    if !IS_NEEDED.load(Ordering::Acquire) || IS_DONE.replace(true) {
        return Ok(());
    }
    Ok(rustix::process::configure_io_flusher_behavior(true)?)
}
