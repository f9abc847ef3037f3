//! The start of threads. A thread has a name, and inherits nothing of how its starter is scheduled.
//!
//! Only threads of the crate `fuse`, whose workers choose their processor and policy themselves, start elsewhere.

mod flusher;
mod scheduling;

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

pub use flusher::{be_flusher, need_flushers};
pub use scheduling::be_ordinary;

/// Starts a thread. The kernel shows the first 15 bytes of its name.
///
/// # Errors
/// The limit of threads is reached, or memory is missing.
pub fn start<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    be_ordinary();
    Builder::new().name(name.into()).spawn(work)
}

/// Starts a thread that ends before `scope` does.
///
/// # Errors
/// As for [`start`].
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    be_ordinary();
    Builder::new().name(name.into()).spawn_scoped(scope, work)
}
