//! Writing the log: `fsync`, and the thread among several that writes for all.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};
use pool::LOG_HEADER;
use vfs::Ino;

use super::SyncMode;
use super::journal::Range;
use super::steps::{Contents, PREAMBLE, preamble, put_contents};
use crate::error::Result;
use crate::files::Files;

/// More than this is not logged: a commit writes it, to where it stays.
const STEPS_MAX: usize = 256 << 10;
/// An entry has no more bytes of steps.
const ENTRY_STEPS_MAX: usize = 512 << 10;

const _: () = assert!(STEPS_MAX < ENTRY_STEPS_MAX && ENTRY_STEPS_MAX < pool::RECORD_MAX as usize);

/// A log begins with this many bytes,
const LOG_MIN: u64 = 32 << 20;
/// and grows up to this many, as long as commits cannot keep up and the pool has room.
const LOG_MAX: u64 = 1 << 30;

/// Steps on their way into the log.
#[derive(Default)]
pub(crate) struct LogWriter {
    queue: Mutex<Queue>,
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    /// What each caller has to say, by ticket.
    waiting: VecDeque<Vec<u8>>,
    /// The ticket of the last that was added,
    issued: u64,
    /// and of the last that is durable.
    durable: u64,
    /// Someone writes.
    is_writing: bool,
}

impl LogWriter {
    /// Adds steps, if there are any. Returns the ticket that covers everything up to now.
    fn add(&self, steps: Vec<u8>) -> u64 {
        let mut queue = self.queue.lock();
        if !steps.is_empty() {
            queue.waiting.push_back(steps);
            queue.issued += 1;
        }
        queue.issued
    }

    /// Returns once everything up to a ticket is durable, by `write` or someone else's. What `write`
    /// failed to write stays in the queue.
    fn wait(&self, ticket: u64, write: &dyn Fn(&[u8]) -> Result<()>) -> Result<()> {
        let mut queue = self.queue.lock();
        while queue.durable < ticket {
            if queue.is_writing {
                self.done.wait(&mut queue);
                continue;
            }
            let (count, steps) = queue.some();
            queue.is_writing = true;
            drop(queue);
            let turn = Turn(self);
            let written = write(&steps);
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

/// Has someone else write if whoever does panics.
struct Turn<'a>(&'a LogWriter);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().is_writing = false;
        self.0.done.notify_all();
    }
}

impl Queue {
    /// As many callers' steps as fit into one entry.
    fn some(&self) -> (usize, Vec<u8>) {
        let mut steps = Vec::new();
        let mut count = 0;
        for more in &self.waiting {
            if count > 0 && steps.len() + more.len() > ENTRY_STEPS_MAX {
                break;
            }
            steps.extend_from_slice(more);
            count += 1;
        }
        (count, steps)
    }
}

impl Files {
    /// Makes durable what was written to a file, and everything that happened to names before.
    pub(crate) fn sync_file(&self, ino: Ino) -> Result<()> {
        if self.settings().sync == SyncMode::Disabled {
            return Ok(());
        }
        match self.log_file(ino)? {
            Some(ticket) => self.log.wait(ticket, &|steps| self.append(steps)),
            None => {
                self.ask_for_log()?;
                self.sync_all()
            }
        }
    }

    /// Hands what has to be said of a file to the log's writer. None if only a commit can help.
    fn log_file(&self, ino: Ino) -> Result<Option<u64>> {
        if self.open.wanted_log() == 0 {
            return Ok(None);
        }
        // Nobody may write between reading what there is to say and taking it.
        let inode = self.inodes.get(ino);
        let ticket = {
            let _io = inode.io.read();
            self.log_steps(ino)
        };
        drop(inode);
        self.inodes.release(ino);
        ticket
    }

    fn log_steps(&self, ino: Ino) -> Result<Option<u64>> {
        let committed = self.pool.committed_txg();
        let Some(ranges) = self.journal.ranges(ino, committed) else {
            return Ok(None);
        };
        let bytes: usize = ranges.iter().map(|range| range.end - range.start).sum();
        if bytes > STEPS_MAX {
            return Ok(None);
        }
        let mut contents = Vec::new();
        for range in &ranges {
            self.put_range(&mut contents, ino, range)?;
        }
        Ok(self
            .journal
            .take(ino, committed, |mut steps, has_contents| {
                if has_contents {
                    steps.append(&mut contents);
                }
                self.log.add(steps)
            }))
    }

    /// What a range holds now, if it still exists.
    fn put_range(&self, steps: &mut Vec<u8>, ino: Ino, range: &Range) -> Result<()> {
        let Some(buffer) = self.record(ino, range.record, false)? else {
            return Ok(());
        };
        let (start, end) = if range.is_whole {
            (0, buffer.len())
        } else {
            (range.start, range.end.min(buffer.len()))
        };
        if start < end {
            let contents = Contents {
                ino,
                record: range.record,
                start,
                is_whole: range.is_whole,
                bytes: &buffer[start..end],
            };
            put_contents(steps, range.txg, &contents);
        }
        Ok(())
    }

    /// Writes an entry, or commits if it is too long for one or there is no room.
    fn append(&self, steps: &[u8]) -> Result<()> {
        if steps.len() > ENTRY_STEPS_MAX {
            return self.commit_all();
        }
        let len = LOG_HEADER + PREAMBLE + steps.len();
        let len = len.next_multiple_of(4096) - LOG_HEADER;
        let seal = |chain, sequence| {
            let mut plain = Vec::with_capacity(len);
            plain.extend(preamble(chain, sequence, steps.len()));
            plain.extend_from_slice(steps);
            plain.resize(len, 0);
            let sealed = self.sealer.seal_log(&plain, self.engine.random.as_ref());
            let sealed = sealed.map_err(|error| self.not_sealed(&error))?;
            Ok::<_, crate::Error>((sealed.identity, sealed.bytes))
        };
        if self.open.append_log(len, seal)? || self.append_after_commit(len, seal)? {
            let (room, size) = self.open.log_room();
            if room < size / 2 {
                self.enlarge_log(size);
                self.engine.wake();
            }
            return Ok(());
        }
        self.enlarge_log(self.open.log_room().1);
        self.commit_all()
    }

    /// Appends an entry once the commit under way, if there is one, has made room.
    fn append_after_commit<S>(&self, len: usize, seal: S) -> Result<bool>
    where
        S: FnOnce(u64, u64) -> Result<(pool::Identity, Vec<u8>)>,
    {
        let ended = self.pool.enter()?.txg() - 1;
        if self.pool.committed_txg() >= ended {
            return Ok(false);
        }
        self.pool.commit_through(ended)?;
        self.open.append_log(len, seal)
    }

    /// Commits whatever may be among steps that were taken out of the journal: also a change whose
    /// maker has not come back from it yet, and would find nothing left to sync.
    fn commit_all(&self) -> Result<()> {
        let txg = self.pool.enter()?.txg();
        Ok(self.pool.commit_through(txg)?)
    }

    /// Has everything noted, and a log set up, with the next transaction group.
    fn ask_for_log(&self) -> Result<()> {
        if !self.open.is_writable() {
            return Ok(());
        }
        self.journal.want();
        if self.open.wanted_log() == 0 {
            let mut chain = [0; 8];
            let random = self.engine.random.fill(&mut chain);
            random.map_err(|_| vfs::Error::Io)?;
            self.open
                .want_log(LOG_MIN, u64::from_le_bytes(chain).max(1));
        }
        Ok(())
    }

    /// Asks for a larger log, if it has become as large as it was to be.
    fn enlarge_log(&self, size: u64) {
        if size < self.open.wanted_log() {
            return;
        }
        let wanted = (4 * self.open.wanted_log()).min(LOG_MAX);
        self.open.want_log(wanted, 0);
    }

    /// The next commit frees the log.
    pub(crate) fn give_up_log(&self) -> Result<()> {
        self.journal.stop();
        if self.open.wanted_log() > 0 {
            self.open.want_log(0, 0);
            self.pool.enter()?.mark_dirty();
        }
        Ok(())
    }
}
