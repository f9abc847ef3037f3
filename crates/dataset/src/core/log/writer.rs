//! The thread among several that writes the log for all.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};
use pool::{LOG_PLACES_MAX, Place};

use crate::error::Result;

/// An entry has no more bytes of steps.
pub(super) const ENTRY_STEPS_MAX: usize = 512 << 10;

/// Steps on their way into the log.
#[derive(Default)]
pub(crate) struct LogWriter {
    queue: Mutex<Queue>,
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    /// What each caller has to say, by ticket.
    waiting: VecDeque<LogRequest>,
    /// The ticket of the last that was added,
    issued: u64,
    /// and of the last that is durable.
    durable: u64,
    /// Someone writes.
    is_writing: bool,
}

/// What an entry is to say.
#[derive(Default)]
pub(super) struct LogRequest {
    pub(super) steps: Vec<u8>,
    /// Where the records are that the steps point to.
    pub(super) places: Vec<Place>,
}

impl LogRequest {
    pub(super) fn add(&mut self, more: &LogRequest) {
        self.steps.extend_from_slice(&more.steps);
        self.places.extend_from_slice(&more.places);
    }

    pub(super) fn has_room_for(&self, more: &LogRequest) -> bool {
        self.steps.len() + more.steps.len() <= ENTRY_STEPS_MAX
            && self.places.len() + more.places.len() <= LOG_PLACES_MAX
    }
}

impl LogWriter {
    /// Adds what is to be request, if it is anything. Returns the ticket that covers everything up to now.
    pub(super) fn add(&self, request: LogRequest) -> u64 {
        let mut queue = self.queue.lock();
        if !request.steps.is_empty() {
            queue.waiting.push_back(request);
            queue.issued += 1;
        }
        queue.issued
    }

    /// Returns once everything up to a ticket is durable, by `write` or someone else's. What `write`
    /// failed to write stays in the queue.
    pub(super) fn wait(
        &self,
        ticket: u64,
        write: &dyn Fn(&LogRequest) -> Result<()>,
    ) -> Result<()> {
        let mut queue = self.queue.lock();
        while queue.durable < ticket {
            if queue.is_writing {
                self.done.wait(&mut queue);
                continue;
            }
            let (count, request) = queue.some();
            queue.is_writing = true;
            drop(queue);
            let turn = Turn(self);
            let written = write(&request);
            std::mem::forget(turn);
            queue = self.queue.lock();
            queue.is_writing = false;
            if written.is_ok() {
                queue.waiting.drain(..count);
                queue.durable += count as u64;
            }
            self.done.notify_all();
            written?;
        }
        Ok(())
    }
}

impl LogWriter {
    /// Has nobody write until what is returned is dropped. Who has something to say waits.
    pub(super) fn hold(&self) -> Turn<'_> {
        let mut queue = self.queue.lock();
        while queue.is_writing {
            self.done.wait(&mut queue);
        }
        queue.is_writing = true;
        Turn(self)
    }
}

/// Has someone else write when it is dropped: at the end of a hold, or if whoever writes panics.
pub(super) struct Turn<'a>(&'a LogWriter);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().is_writing = false;
        self.0.done.notify_all();
    }
}

impl Queue {
    /// What as many callers say as fit into one entry.
    fn some(&self) -> (usize, LogRequest) {
        let mut request = LogRequest::default();
        let mut count = 0;
        for more in &self.waiting {
            if count > 0 && !request.has_room_for(more) {
                break;
            }
            request.add(more);
            count += 1;
        }
        (count, request)
    }
}
