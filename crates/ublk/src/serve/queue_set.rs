//! The queues of a device.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use block::BlockDevice;
use parking_lot::{Condvar, Mutex};

use crate::serve::execute::RequestExecutor;
use crate::serve::helpers::{QueueHelpers, QueueMailbox, QueueOrder};
use crate::serve::queue::{KernelQueue, QueueShape};
use crate::wire::abi::UblkInfo;

/// The time that the end of a device waits for requests that are carried out.
const PATIENCE: Duration = Duration::from_secs(10);

/// The threads that serve the queues of a device.
pub(crate) struct QueueSet {
    mailboxes: Vec<Arc<QueueMailbox>>,
    executor: Arc<RequestExecutor>,
    running: Arc<RunningQueues>,
}

#[derive(Default)]
struct RunningQueues {
    count: Mutex<usize>,
    ended: Condvar,
}

/// Counts the thread of a queue as long as it runs.
struct RunningQueue(Arc<RunningQueues>);

impl RunningQueue {
    fn new(all: &Arc<RunningQueues>) -> RunningQueue {
        *all.count.lock() += 1;
        RunningQueue(Arc::clone(all))
    }
}

impl Drop for RunningQueue {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.ended.notify_all();
    }
}

impl QueueSet {
    /// Serves all queues of a device. `on_loss` ends the device if the ring of a queue fails: its requests would wait for
    /// ever.
    ///
    /// # Errors
    /// If a thread or a ring cannot be had. Then none is served.
    pub(crate) fn start(
        info: &UblkInfo,
        file: OwnedFd,
        executor: RequestExecutor,
        on_loss: impl Fn(std::io::Error) + Clone + Send + 'static,
    ) -> std::io::Result<QueueSet> {
        let file = Arc::new(file);
        let executor = Arc::new(executor);
        let helpers = Arc::new(QueueHelpers::new(Arc::clone(&executor)));
        let mailboxes: Result<Vec<_>, _> = (0..info.queues)
            .map(|_| QueueMailbox::new().map(Arc::new))
            .collect();
        let set = QueueSet {
            mailboxes: mailboxes?,
            executor,
            running: Arc::default(),
        };
        let (ready, opened) = channel();
        for (number, mailbox) in (0..).zip(&set.mailboxes) {
            let shape = QueueShape {
                number,
                depth: info.depth,
                buffer_len: info.buffer_len as usize,
            };
            let open = {
                let (file, mailbox) = (Arc::clone(&file), Arc::clone(mailbox));
                let (helpers, executor) = (Arc::clone(&helpers), Arc::clone(&set.executor));
                move || KernelQueue::open(shape, file, mailbox, helpers, executor)
            };
            let (running, ready) = (RunningQueue::new(&set.running), ready.clone());
            let on_loss = on_loss.clone();
            let work = move || serve(running, open, &ready, &on_loss);
            if let Err(error) = threads::start("ublk", work) {
                set.give(QueueOrder::Cut);
                return Err(error);
            }
        }
        for _ in &set.mailboxes {
            let one = opened
                .recv()
                .unwrap_or_else(|_| Err(std::io::Error::other("its thread has ended")));
            if one.is_err() {
                set.give(QueueOrder::Cut);
            }
            one?;
        }
        Ok(set)
    }

    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        self.executor.device()
    }

    /// Returns whether queues are served.
    pub(crate) fn is_running(&self) -> bool {
        *self.running.count.lock() > 0
    }

    /// Gives all queues an order.
    pub(crate) fn give(&self, order: QueueOrder) {
        for mailbox in &self.mailboxes {
            mailbox.give(order);
        }
    }

    /// Waits for the end of all queues. False if requests do not end.
    pub(crate) fn wait(&self) -> bool {
        let mut count = self.running.count.lock();
        let is_running = |count: &mut usize| *count > 0;
        self.running
            .ended
            .wait_while_for(&mut count, is_running, PATIENCE);
        *count == 0
    }
}

/// The thread of a queue.
fn serve(
    running: RunningQueue,
    open: impl FnOnce() -> std::io::Result<KernelQueue>,
    ready: &Sender<std::io::Result<()>>,
    on_loss: &dyn Fn(std::io::Error),
) {
    // Helpers say nothing more of it.
    if let Err(error) = threads::be_flusher() {
        tracing::warn!(
            %error,
            "while memory is short, the kernel may wait for this process without an end: it may not set PR_SET_IO_FLUSHER \
             (CAP_SYS_RESOURCE)"
        );
    }
    let queue = match open() {
        Ok(queue) => queue,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let _ = ready.send(Ok(()));
    let served = catch_unwind(AssertUnwindSafe(|| queue.serve()));
    let served = served.unwrap_or_else(|_| Err(std::io::Error::other("this program failed")));
    drop(running);
    if let Err(error) = served {
        on_loss(error);
    }
}
