//! Reads a log from its head on.

use store::{SegmentId, UNIT};

use crate::format::logs::log_entry::{EntryHead, LogPosition, is_whole};
use crate::format::logs::log_head::{LogHead, capacity};
use crate::format::logs::log_state::{Link, PrecedingState};
use crate::format::records::pointer::{RECORD_MAX, RecordIdentity, RecordLocation, checksum};
use crate::storage::reader::PoolReader;

/// After a bad entry, the next entry begins within this many bytes, if there is one.
const LOOK_AHEAD: u32 = RECORD_MAX + 2 * UNIT;

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// At the last entry that was written.
    Whole {
        /// The number of entries.
        entries: u64,
    },
    /// At a damaged entry that was durable once. Its changes, and those of later entries, are lost.
    Damaged {
        /// The number of entries before it.
        entries: u64,
    },
    /// At a place that cannot be read now. It is unknown whether there are more entries.
    Unreadable {
        /// The number of entries before the end.
        entries: u64,
    },
}

/// An entry, for its key holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The position of the entry, as its header says.
    pub place: LogPosition,
    /// True if it continues the entry before it and the state that the head of the log is of.
    pub follows: bool,
    /// The identity of the sealed payload.
    pub identity: RecordIdentity,
    /// The sealed payload.
    pub payload: Vec<u8>,
}

/// Reads the entries of a log in their order.
pub struct LogReader<'a> {
    disk: &'a PoolReader,
    head: &'a LogHead,
    dataset: u64,
    chunk: usize,
    offset: u32,
    sequence: u64,
    /// The last entry: what it continues, and its tag.
    last: Option<(PrecedingState, Link)>,
}

impl<'a> LogReader<'a> {
    pub(crate) fn new(disk: &'a PoolReader, head: &'a LogHead, dataset: u64) -> LogReader<'a> {
        LogReader {
            disk,
            head,
            dataset,
            chunk: 0,
            offset: head.offset,
            sequence: head.sequence,
            last: None,
        }
    }

    /// Returns how the log ended, after the last entry.
    pub fn end(&self) -> LogEnd {
        let entries = self.sequence - self.head.sequence;
        match self.proof_of_loss() {
            _ if self.unreadable().is_some() => LogEnd::Unreadable { entries },
            Some(_) => LogEnd::Damaged { entries },
            None => LogEnd::Whole { entries },
        }
    }

    /// The group of devices where the next entry may be, if it cannot be read.
    pub(crate) fn unreadable(&self) -> Option<u32> {
        let mut places = self.next_places().into_iter();
        let (chunk, offset) = places.find(|(chunk, offset)| !self.is_known(*chunk, *offset))?;
        Some(self.at(chunk, offset)?.0.group())
    }

    /// Returns whether an entry at a place would be found.
    fn is_known(&self, chunk: usize, offset: u32) -> bool {
        let Some((segment, at, _)) = self.at(chunk, offset) else {
            return true;
        };
        let is_readable = |len: u32| {
            let mut buf = vec![0; len as usize];
            let store = &self.disk.store;
            self.disk.is_known(segment.group(), |nth| {
                store.read_units(nth, segment, at, &mut buf).is_ok()
            })
        };
        let is_next = |entry: &EntryHead| entry.sequence == self.sequence;
        let mut heads = self.heads(chunk, offset, &is_next);
        is_readable(UNIT)
            && heads.all(|begins| {
                is_readable(begins.head.len)
                    && begins.with_places(self.disk).is_none_or(|found| {
                        let mut claims = found.claims(self.head.base).into_iter();
                        claims
                            .all(|place| self.is_there(&place) || self.disk.is_place_known(&place))
                    })
            })
    }

    /// Finds a later entry. Its presence proves that the next entry was durable once.
    pub(crate) fn proof_of_loss(&self) -> Option<RawEntry> {
        let rest = (0..LOOK_AHEAD / UNIT).map(|unit| (self.chunk, self.offset + unit * UNIT));
        let shows_loss =
            |entry: &EntryHead| entry.sequence > self.sequence && entry.flushed >= self.sequence;
        rest.chain([(self.chunk + 1, 0)])
            .find_map(|(chunk, offset)| self.entry(chunk, offset, &shows_loss))
    }

    pub(crate) fn advance(&mut self) -> Option<RawEntry> {
        let is_next = |entry: &EntryHead| entry.sequence == self.sequence;
        let at = |(chunk, offset)| Some(((chunk, offset), self.entry(chunk, offset, &is_next)?));
        let (at, found) = self.next_places().into_iter().find_map(at)?;
        self.pass(at, &found.head);
        Some(found)
    }

    /// Returns whether an entry continues the last one, or is the first. Later entries may be of the state of the head,
    /// and earlier ones of the state before it.
    fn follows(&self, entry: &EntryHead) -> bool {
        match (&entry.bound, &self.last) {
            (None, _) => self.head.is_unbound(),
            (Some(_), _) if self.head.is_unbound() => false,
            (Some(bound), None) => self.head.is_continued_by(bound),
            (Some(bound), Some((before, tag))) => {
                bound.link == *tag
                    && (bound.state == before.state || bound.state == self.head.state)
            }
        }
    }

    /// The places where the next entry may be: after the last one, or in the next chunk.
    fn next_places(&self) -> [(usize, u32); 2] {
        [(self.chunk, self.offset), (self.chunk + 1, 0)]
    }

    fn pass(&mut self, (chunk, offset): (usize, u32), head: &EntryHead) {
        self.chunk = chunk;
        self.offset = offset + head.len;
        self.sequence += 1;
    }

    /// The places of records that only the log points to. Reads only headers and not payloads, so the places in an
    /// incomplete entry can be wrong.
    pub(crate) fn claims(&mut self) -> Vec<RecordLocation> {
        let mut all = Vec::new();
        loop {
            let is_next = |entry: &EntryHead| entry.sequence == self.sequence;
            let at = |(chunk, offset)| {
                let head = self.beginnings(chunk, offset, &is_next).next()?;
                Some(((chunk, offset), head))
            };
            let Some((at, found)) = self.next_places().into_iter().find_map(at) else {
                return all;
            };
            all.extend(found.claims(self.head.base));
            self.pass(at, &found.head);
        }
    }

    /// The entries with their places, to copy them without the key.
    pub(crate) fn raw(&mut self) -> impl Iterator<Item = RawEntry> {
        std::iter::from_fn(|| self.advance())
    }

    /// A complete and `wanted` entry of this log at a place, from the first member that has it. Other members may have
    /// an older entry there.
    fn entry(
        &self,
        chunk: usize,
        offset: u32,
        wanted: &dyn Fn(&EntryHead) -> bool,
    ) -> Option<RawEntry> {
        self.beginnings(chunk, offset, wanted).find_map(|found| {
            let found = found.read(self.disk, found.head.len)?;
            let claimed = found.claims(self.head.base).into_iter();
            (is_whole(&found.bytes) && { claimed }.all(|place| self.is_there(&place)))
                .then_some(found)
        })
    }

    /// Returns whether a record is where an entry says. If not, neither the record nor the entry was durable.
    fn is_there(&self, place: &RecordLocation) -> bool {
        let mut buf = vec![0; place.disk_size() as usize];
        let fetched = self.disk.fetch(place, &mut buf, &mut |bytes| {
            checksum(bytes) == place.checksum
        });
        fetched.is_ok()
    }

    /// The headers of `wanted` entries of this log that the members have at a place, with the places that the entries
    /// point to.
    fn beginnings(
        &self,
        chunk: usize,
        offset: u32,
        wanted: &dyn Fn(&EntryHead) -> bool,
    ) -> impl Iterator<Item = RawEntry> {
        let heads = self.heads(chunk, offset, wanted);
        heads.filter_map(|begins| begins.with_places(self.disk))
    }

    /// The `wanted` entries that the members have at a place. Reads only the first unit of each.
    fn heads(
        &self,
        chunk: usize,
        offset: u32,
        wanted: &dyn Fn(&EntryHead) -> bool,
    ) -> impl Iterator<Item = RawEntry> {
        let at = self.at(chunk, offset);
        let members = at.map_or(0, |(segment, ..)| self.disk.store.width(segment.group()));
        (0..members).filter_map(move |member| {
            let (segment, offset, left) = at?;
            let mut first = vec![0; UNIT as usize];
            let read = self
                .disk
                .store
                .read_units(member, segment, offset, &mut first);
            let head = read.ok().and_then(|()| EntryHead::decode(&first))?;
            let is_ours = head.pool == self.disk.store.pool_guid()
                && head.dataset == self.dataset
                && head.chain == self.head.chain;
            if !is_ours || head.len > left || !wanted(&head) {
                return None;
            }
            Some(RawEntry {
                head,
                member,
                segment,
                offset,
                bytes: first,
            })
        })
    }

    /// A place in the ring, and the bytes from there to the end of its chunk.
    fn at(&self, chunk: usize, offset: u32) -> Option<(SegmentId, u32, u32)> {
        let run = self.head.chunks.get(chunk)?;
        let shape = self.disk.store.shape(run.segment().group());
        let left = capacity(run, shape).checked_sub(offset);
        let left = left.filter(|left| *left > 0)?;
        let offset = run
            .offset()
            .checked_add(offset.checked_mul(shape.cell())?)?;
        Some((run.segment(), offset, left))
    }
}

/// An entry as it lies in a log.
pub(crate) struct RawEntry {
    pub(crate) head: EntryHead,
    /// The member that it was read from, by number.
    member: usize,
    pub(crate) segment: SegmentId,
    pub(crate) offset: u32,
    /// Header, places and payload.
    pub(crate) bytes: Vec<u8>,
}

impl RawEntry {
    /// Reads this entry up to the end of the places that it points to.
    fn with_places(self, disk: &PoolReader) -> Option<RawEntry> {
        match self.head.payload() <= UNIT as usize {
            true => Some(self),
            false => self.read(disk, (self.head.payload() as u32).next_multiple_of(UNIT)),
        }
    }

    /// Reads so many bytes of this entry.
    fn read(&self, disk: &PoolReader, len: u32) -> Option<RawEntry> {
        let mut bytes = vec![0; len as usize];
        let (member, segment, offset) = (self.member, self.segment, self.offset);
        let read = disk.store.read_units(member, segment, offset, &mut bytes);
        read.is_ok().then_some(RawEntry {
            head: self.head,
            member,
            segment,
            offset,
            bytes,
        })
    }

    /// The places of records that are in no array up to transaction group `base`.
    pub(crate) fn claims(&self, base: u64) -> Vec<RecordLocation> {
        let places = self.head.places(&self.bytes).iter();
        places
            .filter(|place| place.birth() > base && place.is_plain())
            .copied()
            .collect()
    }
}

impl Iterator for LogReader<'_> {
    type Item = LogEntry;

    fn next(&mut self) -> Option<LogEntry> {
        let RawEntry {
            head, mut bytes, ..
        } = self.advance()?;
        let follows = self.follows(&head);
        self.last = head.bound.map(|bound| (bound, *head.identity.tag()));
        Some(LogEntry {
            place: LogPosition::of(&head, head.places(&bytes)),
            follows,
            identity: head.identity,
            payload: bytes.split_off(head.payload()),
        })
    }
}
