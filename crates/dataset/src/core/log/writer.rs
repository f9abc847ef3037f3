//! The writer of the log: of several threads with requests, one writes or flushes for all.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use pool::{Durability, LOG_PLACES_MAX, RecordLocation};

use crate::error::Result;

/// The largest number of bytes of steps in an entry.
pub(super) const ENTRY_STEPS_MAX: usize = 512 << 10;

/// The requests that wait for the log.
#[derive(Default)]
pub(crate) struct LogWriter {
    queue: Mutex<LogQueue>,
    done: Condvar,
}

#[derive(Default)]
struct LogQueue {
    /// The requests of callers, by ticket.
    waiting: VecDeque<Arc<LogRequest>>,
    /// The ticket of the last request that was added.
    issued: u64,
    /// The ticket of the last request that is written.
    written: u64,
    /// The ticket of the last request that is durable.
    durable: u64,
    /// True if a thread is writing or flushing.
    is_writing: bool,
}

/// The changes that one caller wants in the log.
#[derive(Default)]
pub(super) struct LogRequest {
    /// Steps of names, owners and the like; they come first.
    pub(super) names: Vec<u8>,
    /// Steps of contents.
    pub(super) contents: Vec<u8>,
    /// The places of the records that the steps point to.
    pub(super) places: Vec<RecordLocation>,
}

impl LogRequest {
    /// Bytes of its steps.
    pub(super) fn len(&self) -> usize {
        self.names.len() + self.contents.len()
    }
}

impl LogWriter {
    /// Adds a request, unless it is empty. Returns the ticket for all requests up to now.
    pub(super) fn add(&self, request: LogRequest) -> u64 {
        let mut queue = self.queue.lock();
        if request.len() > 0 {
            queue.waiting.push_back(Arc::new(request));
            queue.issued += 1;
        }
        queue.issued
    }

    /// Returns when all requests up to a ticket are as safe as `durability` says, by `write` or by another thread. `write`
    /// also makes earlier requests durable with [`Durability::Flushed`]. It gets no requests if all are written. Requests
    /// that `write` failed to write stay in the queue.
    pub(super) fn wait(
        &self,
        ticket: u64,
        durability: Durability,
        write: &dyn Fn(&[Arc<LogRequest>]) -> Result<()>,
    ) -> Result<()> {
        let mut queue = self.queue.lock();
        while queue.reached(durability) < ticket {
            if queue.is_writing {
                self.done.wait(&mut queue);
                continue;
            }
            let requests = match queue.written < ticket {
                true => queue.some(),
                false => Vec::new(),
            };
            queue.is_writing = true;
            drop(queue);
            // If `write` panics, other threads go on.
            let turn = WriterTurn(self);
            let written = write(&requests);
            std::mem::forget(turn);
            queue = self.queue.lock();
            queue.is_writing = false;
            if written.is_ok() {
                queue.waiting.drain(..requests.len());
                debug_assert!(queue.written + requests.len() as u64 <= queue.issued);
                queue.written += requests.len() as u64;
                if durability == Durability::Flushed {
                    // Entries are flushed in order: the earlier ones are durable too.
                    queue.durable = queue.written;
                }
            }
            // Also after a failure: one of the threads that wait tries again.
            self.done.notify_all();
            written?;
        }
        Ok(())
    }
}

impl LogWriter {
    /// Stops writes to the log until the returned value is dropped. Threads with requests wait.
    pub(super) fn hold(&self) -> WriterTurn<'_> {
        let mut queue = self.queue.lock();
        while queue.is_writing {
            self.done.wait(&mut queue);
        }
        queue.is_writing = true;
        WriterTurn(self)
    }
}

/// Lets another thread write when it is dropped: at the end of a hold, or if the writer panics.
pub(super) struct WriterTurn<'a>(&'a LogWriter);

impl Drop for WriterTurn<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().is_writing = false;
        self.0.done.notify_all();
    }
}

impl LogQueue {
    /// The ticket of the last request that is as safe as this.
    fn reached(&self, durability: Durability) -> u64 {
        match durability {
            Durability::Written => self.written,
            Durability::Flushed => self.durable,
        }
    }

    /// Returns as many requests as fit into one entry, but at least one.
    fn some(&self) -> Vec<Arc<LogRequest>> {
        let (mut steps, mut places) = (0, 0);
        let fits = |request: &&Arc<LogRequest>| {
            let is_first = steps == 0;
            steps += request.len();
            places += request.places.len();
            // If one is too large even alone, `write` commits instead.
            is_first || steps <= ENTRY_STEPS_MAX && places <= LOG_PLACES_MAX
        };
        self.waiting.iter().take_while(fits).cloned().collect()
    }
}
