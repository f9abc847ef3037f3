//! Reading a log from its head on.

use store::{SegmentId, UNIT};

use super::entry::{EntryHead, LOG_HEADER, is_whole};
use super::{LogHead, capacity};
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
        match self.proof_of_loss() {
            Some(_) => LogEnd::Damaged { entries },
            None => LogEnd::Whole { entries },
        }
    }

    /// An entry that says that the next one was durable once.
    pub(crate) fn proof_of_loss(&self) -> Option<RawEntry> {
        let rest = (0..LOOK_AHEAD / UNIT).map(|unit| (self.chunk, self.offset + unit * UNIT));
        let shows_loss =
            |entry: &EntryHead| entry.sequence > self.sequence && entry.flushed >= self.sequence;
        rest.chain([(self.chunk + 1, 0)])
            .find_map(|(chunk, offset)| self.entry(chunk, offset, &shows_loss))
    }

    pub(crate) fn advance(&mut self) -> Option<RawEntry> {
        let is_next = |entry: &EntryHead| entry.sequence == self.sequence;
        let here = self.entry(self.chunk, self.offset, &is_next);
        let (chunk, offset, found) = match here {
            Some(found) => (self.chunk, self.offset, found),
            // It may not have fitted behind the last one.
            None => {
                let found = self.entry(self.chunk + 1, 0, &is_next)?;
                (self.chunk + 1, 0, found)
            }
        };
        self.chunk = chunk;
        self.offset = offset + found.head.len;
        self.sequence += 1;
        Some(found)
    }

    /// The entries with their places, for whoever copies them and cannot read them.
    pub(crate) fn raw(mut self) -> impl Iterator<Item = RawEntry> {
        std::iter::from_fn(move || self.advance())
    }

    /// A whole entry of this log at a place that is `wanted`, from the first member that has it. One
    /// that lacks it may have an older one there.
    fn entry(
        &self,
        chunk: usize,
        offset: u32,
        wanted: &dyn Fn(&EntryHead) -> bool,
    ) -> Option<RawEntry> {
        let run = self.head.chunks.get(chunk)?;
        let (segment, store) = (run.segment(), &self.disk.store);
        let shape = store.shape(segment.group());
        let room = capacity(run, shape).checked_sub(offset);
        let room = room.filter(|room| *room > 0)?;
        let offset = run
            .offset()
            .checked_add(offset.checked_mul(shape.cell())?)?;
        (0..store.width(segment.group())).find_map(|nth| {
            let read = |bytes: &mut [u8]| store.read_units(nth, segment, offset, bytes).is_ok();
            let mut first = vec![0; UNIT as usize];
            let head = read(&mut first).then(|| EntryHead::decode(&first))??;
            let is_ours = head.pool == store.pool_guid()
                && head.dataset == self.dataset
                && head.chain == self.head.chain;
            if !is_ours || head.len > room || !wanted(&head) {
                return None;
            }
            let mut bytes = vec![0; head.len as usize];
            (read(&mut bytes) && is_whole(&bytes)).then_some(RawEntry {
                head,
                segment,
                offset,
                bytes,
            })
        })
    }
}

/// An entry as it lies in a log.
pub(crate) struct RawEntry {
    pub(crate) head: EntryHead,
    pub(crate) segment: SegmentId,
    pub(crate) offset: u32,
    /// Header and payload.
    pub(crate) bytes: Vec<u8>,
}

impl Iterator for LogReader<'_> {
    type Item = LogEntry;

    fn next(&mut self) -> Option<LogEntry> {
        let RawEntry {
            head, mut bytes, ..
        } = self.advance()?;
        Some(LogEntry {
            sequence: head.sequence,
            identity: head.identity,
            payload: bytes.split_off(LOG_HEADER),
        })
    }
}
