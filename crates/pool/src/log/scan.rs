//! Reading a log from its head on.

use store::UNIT;

use super::LogHead;
use super::entry::{EntryHead, LOG_HEADER, is_whole};
use crate::disk::Disk;
use crate::layout::{Identity, RECORD_MAX};

/// Behind a bad entry the next one begins within so many bytes, if there is one.
const LOOK_AHEAD: u32 = RECORD_MAX + 2 * UNIT;

/// How a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// Where it was last written.
    Whole {
        /// How many entries it has.
        entries: u64,
    },
    /// At an entry that is damaged and had been durable once: what it and those behind it held is
    /// lost.
    Damaged {
        /// How many entries come before.
        entries: u64,
    },
}

/// An entry as its key holder wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number in the chain.
    pub sequence: u64,
    /// How the payload is sealed.
    pub identity: Identity,
    /// What is sealed.
    pub payload: Vec<u8>,
}

/// Reads the entries of a log in their order.
pub struct LogReader<'a> {
    disk: &'a Disk,
    head: &'a LogHead,
    dataset: u64,
    chunk: usize,
    offset: u32,
    sequence: u64,
}

impl<'a> LogReader<'a> {
    pub(crate) fn new(disk: &'a Disk, head: &'a LogHead, dataset: u64) -> LogReader<'a> {
        LogReader {
            disk,
            head,
            dataset,
            chunk: 0,
            offset: head.offset,
            sequence: head.sequence,
        }
    }

    /// How the log ended, once there is no next entry.
    pub fn end(&self) -> LogEnd {
        let entries = self.sequence - self.head.sequence;
        let rest = (0..LOOK_AHEAD / UNIT).map(|unit| (self.chunk, self.offset + unit * UNIT));
        let lost = rest
            .chain([(self.chunk + 1, 0)])
            .filter_map(|(chunk, offset)| self.entry(chunk, offset))
            .any(|(entry, _)| entry.sequence > self.sequence && entry.flushed >= self.sequence);
        if lost {
            LogEnd::Damaged { entries }
        } else {
            LogEnd::Whole { entries }
        }
    }

    fn advance(&mut self) -> Option<(EntryHead, Vec<u8>)> {
        let is_next = |entry: &EntryHead| entry.sequence == self.sequence;
        let here = self
            .entry(self.chunk, self.offset)
            .filter(|(e, _)| is_next(e));
        let (chunk, offset, found) = match here {
            Some(found) => (self.chunk, self.offset, found),
            // It may not have fitted behind the last one.
            None => {
                let found = self.entry(self.chunk + 1, 0).filter(|(e, _)| is_next(e))?;
                (self.chunk + 1, 0, found)
            }
        };
        self.chunk = chunk;
        self.offset = offset + found.0.len;
        self.sequence += 1;
        Some(found)
    }

    /// A whole entry of this log at a place: its header, and its payload.
    fn entry(&self, chunk: usize, offset: u32) -> Option<(EntryHead, Vec<u8>)> {
        let run = self.head.chunks.get(chunk)?;
        let room = run.size().checked_sub(offset).filter(|room| *room > 0)?;
        let read = |bytes: &mut [u8]| {
            let at = run.offset() + offset;
            self.disk.store.read(run.segment(), at, bytes).is_ok()
        };
        let mut first = vec![0; UNIT as usize];
        let head = read(&mut first).then(|| EntryHead::decode(&first))??;
        let is_ours = head.pool == self.disk.store.pool_guid()
            && head.dataset == self.dataset
            && head.chain == self.head.chain;
        if !is_ours || head.len > room {
            return None;
        }
        let mut bytes = vec![0; head.len as usize];
        (read(&mut bytes) && is_whole(&bytes)).then(|| (head, bytes.split_off(LOG_HEADER)))
    }
}

impl Iterator for LogReader<'_> {
    type Item = LogEntry;

    fn next(&mut self) -> Option<LogEntry> {
        let (head, payload) = self.advance()?;
        Some(LogEntry {
            sequence: head.sequence,
            identity: head.identity,
            payload,
        })
    }
}
