//! The thread of a queue.
//!
//! The thread waits in its ring for requests, carries short ones out itself, one after the other, and answers them
//! together. Nothing is handed over, and no other thread is woken. A request that is long by its nature (a flush, zeroing),
//! or that the device would take long for, goes to a helper: the other requests of the queue do not wait for it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::serve::execute::{KernelRequest, RequestExecutor};
use crate::serve::helpers::{JobResult, QueueHelpers, QueueJob, QueueMailbox, QueueOrder};
use crate::wire::ring::{QueueEvent, QueueRing, TagBuffer};

/// The place of a queue in its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueShape {
    pub(crate) number: u16,
    pub(crate) depth: u16,
    /// The most bytes that a request reads or writes.
    pub(crate) buffer_len: usize,
}

/// A queue. It is used by one thread only.
pub(crate) struct KernelQueue {
    /// The first field: it is dropped before the buffers that the driver knows.
    ring: QueueRing,
    /// The buffers by tag. A helper has that of its request.
    buffers: Vec<Option<TagBuffer>>,
    mailbox: Arc<QueueMailbox>,
    helpers: Arc<QueueHelpers>,
    executor: Arc<RequestExecutor>,
    /// Tags that the driver may still give requests.
    live: usize,
    /// Requests that helpers have.
    aside: usize,
    /// Answers that wait until the changes are settled.
    unsettled: Vec<(u16, i32)>,
}

impl KernelQueue {
    /// Makes a queue, and tells the driver that it is served.
    pub(crate) fn open(
        shape: QueueShape,
        file: Arc<OwnedFd>,
        mailbox: Arc<QueueMailbox>,
        helpers: Arc<QueueHelpers>,
        executor: Arc<RequestExecutor>,
    ) -> std::io::Result<KernelQueue> {
        let mut ring = QueueRing::new(file, shape.number, shape.depth)?;
        let mut buffers = Vec::with_capacity(shape.depth.into());
        for tag in 0..shape.depth {
            let buffer = TagBuffer::new(shape.buffer_len)?;
            ring.fetch(tag, &buffer)?;
            buffers.push(Some(buffer));
        }
        ring.watch(mailbox.wake())?;
        let mut queue = KernelQueue {
            ring,
            buffers,
            mailbox,
            helpers,
            executor,
            live: shape.depth.into(),
            aside: 0,
            unsettled: Vec::new(),
        };
        queue.ring.submit()?;
        // Before the device starts there are no requests: an event is a refusal.
        let mut events = Vec::new();
        queue.ring.take_events(&mut events);
        let refusal = events.into_iter().find_map(|event| match event {
            QueueEvent::End(_, error) => Some(std::io::Error::from_raw_os_error(-error)),
            _ => None,
        });
        refusal.map_or(Ok(queue), Err)
    }

    /// Serves the queue until the device ends or is left. An error is one of the ring.
    pub(crate) fn serve(mut self) -> std::io::Result<()> {
        let mut events = Vec::new();
        loop {
            let order = self.mailbox.order();
            let is_over = self.live == 0 || order != QueueOrder::Serve;
            if is_over && self.aside == 0 {
                // The last answers.
                return self.ring.submit();
            }
            self.ring.wait()?;
            self.ring.take_events(&mut events);
            for event in events.drain(..) {
                self.handle(event)?;
            }
            self.answer_settled()?;
        }
    }

    fn handle(&mut self, event: QueueEvent) -> std::io::Result<()> {
        match event {
            QueueEvent::Wake => {
                for result in self.mailbox.take() {
                    self.finish(result)?;
                }
                self.ring.watch(self.mailbox.wake())
            }
            QueueEvent::End(_, error) => {
                self.live -= 1;
                let has_ended = error == -Errno::NODEV.raw_os_error();
                match has_ended || self.mailbox.order() != QueueOrder::Serve {
                    true => Ok(()),
                    // The driver refused an answer: the request would wait for ever.
                    false => Err(std::io::Error::from_raw_os_error(-error)),
                }
            }
            // The next process gets it.
            QueueEvent::Request(_) if self.mailbox.order() != QueueOrder::Serve => Ok(()),
            QueueEvent::Request(tag) => self.begin(tag),
        }
    }

    fn begin(&mut self, tag: u16) -> std::io::Result<()> {
        let described = self.ring.request(tag);
        let Some(request) = KernelRequest::parse(&described) else {
            return self.answer(tag, -Errno::OPNOTSUPP.raw_os_error());
        };
        let Some(mut buffer) = self.buffers[usize::from(tag)].take() else {
            return Err(std::io::Error::other("the driver gave a tag twice"));
        };
        if self.executor.is_long(&request) {
            let from = Arc::clone(&self.mailbox);
            let job = QueueJob {
                tag,
                request,
                buffer,
                from,
            };
            match self.helpers.hand_over(job) {
                Ok(()) => {
                    self.aside += 1;
                    return Ok(());
                }
                Err(job) => buffer = job.buffer,
            }
        }
        let is_cut = || self.mailbox.order() == QueueOrder::Cut;
        let answer = self.executor.carry_out(&request, buffer.bytes(), is_cut);
        self.buffers[usize::from(tag)] = Some(buffer);
        match RequestExecutor::needs_settling(&request, answer) {
            true => {
                self.unsettled.push((tag, answer));
                Ok(())
            }
            false => self.answer(tag, answer),
        }
    }

    fn finish(&mut self, result: JobResult) -> std::io::Result<()> {
        self.aside -= 1;
        self.buffers[usize::from(result.tag)] = Some(result.buffer);
        self.answer(result.tag, result.answer)
    }

    /// Settles the changes of a round together, and answers them.
    fn answer_settled(&mut self) -> std::io::Result<()> {
        let answers = std::mem::take(&mut self.unsettled);
        if answers.is_empty() {
            return Ok(());
        }
        let is_settled = self.executor.settle(answers.len());
        for (tag, answer) in answers {
            let answer = match is_settled {
                true => answer,
                false => -Errno::IO.raw_os_error(),
            };
            self.answer(tag, answer)?;
        }
        Ok(())
    }

    fn answer(&mut self, tag: u16, answer: i32) -> std::io::Result<()> {
        if self.mailbox.order() == QueueOrder::Cut {
            return Ok(());
        }
        match &self.buffers[usize::from(tag)] {
            Some(buffer) => self.ring.commit(tag, answer, buffer),
            None => Err(std::io::Error::other("a helper has the buffer of the tag")),
        }
    }
}
