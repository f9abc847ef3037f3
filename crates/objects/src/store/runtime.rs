//! Tasks and time of the machine: two threads that serve all object stores of the process.
//!
//! The threads sleep while no request is on its way, and no timer is set. They end when the last user is gone.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::store::interface::{Executor, RequestFuture};

/// Requests wait much and compute little.
const WORKERS: usize = 2;
/// The most threads that wait for a folder or for a name server.
const BLOCKING_THREADS_MAX: usize = 64;

/// The executor in use. It is made again if it was dropped.
static SHARED: Mutex<Weak<NetworkExecutor>> = Mutex::new(Weak::new());

/// Returns the executor of the process. All stores share it.
///
/// # Panics
/// No thread can be started.
pub fn executor() -> Arc<dyn Executor> {
    let mut shared = SHARED.lock();
    if let Some(executor) = shared.upgrade() {
        return executor;
    }
    let executor = Arc::new(NetworkExecutor::start().expect("threads for object stores"));
    *shared = Arc::downgrade(&executor);
    executor
}

/// An executor on threads of its own.
struct NetworkExecutor {
    /// The handle of `runtime`.
    handle: Handle,
    /// Absent only while it is dropped.
    runtime: Option<Runtime>,
    start: Instant,
}

impl NetworkExecutor {
    fn start() -> io::Result<NetworkExecutor> {
        // Threads inherit how their starter is scheduled. Those that start later repeat this themselves.
        threads::be_ordinary();
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("objects")
            .on_thread_start(threads::be_ordinary)
            .enable_io()
            .enable_time()
            .build()?;
        Ok(NetworkExecutor {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            start: Instant::now(),
        })
    }
}

impl Drop for NetworkExecutor {
    fn drop(&mut self) {
        // The last user may be a task, which cannot wait for its own thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Executor for NetworkExecutor {
    fn spawn(&self, task: RequestFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn sleep(&self, time: Duration) -> RequestFuture<'static, ()> {
        // The timer is made by the first poll, which happens on a thread of the runtime.
        Box::pin(async move { tokio::time::sleep(time).await })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&self, task: RequestFuture<'_, ()>) {
        self.handle.block_on(task);
    }
}
