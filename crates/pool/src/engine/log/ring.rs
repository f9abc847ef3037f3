//! The ring of a log in memory: the place of the next entry, and the changes that a commit makes to the ring.
//!
//! Entries are written to a chunk only after the commit that allocated it is durable. The chunk is reused only after
//! the commit that moved the head past it is durable.
//!
//! Chunks are in groups for logs. If there is no such group, or all are full, chunks are in groups for records. If a
//! group for logs fails or is removed, its chunks are *shut*: nothing more is written to them, and they are freed when
//! they hold no entry.

use std::collections::BTreeSet;
use std::io::IoSlice;

use store::{Shape, UNIT};

use super::claims::PointedBytes;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::datasets::seal_input::SealInput;
use crate::format::logs::log_entry::ENTRY_MAX;
use crate::format::logs::log_head::{CHUNKS_MAX, LogHead, capacity};
use crate::format::logs::log_state::{Link, PrecedingState, State, before};
use crate::format::records::extent::{Class, StoredExtent};
use crate::format::records::pointer::Addr;
use crate::storage::space::ReserveFor;
use crate::storage::writer::txg::TxgWriter;

/// The largest part of the free space that a log takes.
const FREE_PART: u64 = 16;
/// The smallest chunk, in bytes.
const CHUNK_MIN: u32 = 64 << 10;
/// The chunks of a small ring are as large as this, so that long entries fit. But the ring has four of them.
const CHUNK_OF_SMALL_RING: u64 = 1 << 20;
/// The bytes of zeros in one write.
const FILL_STEP: u32 = 1 << 20;

/// The log of an open dataset.
pub(crate) struct Ring {
    stage: LogStage,
    chain: u64,
    /// The sequence of the next entry.
    sequence: u64,
    /// The last durable entry.
    flushed: u64,
    /// The state that the next entry continues: the durable state, and the last entry.
    bound: PrecedingState,
    /// The state that is durable with the running commit.
    coming_state: Option<State>,
    /// The groups of the entries after it, and of the records that they point to.
    unflushed: BTreeSet<u32>,
    /// The entries like those in `unflushed` whose changes the running commit makes durable.
    committing: BTreeSet<u32>,
    /// The chunks of the last commit, from the chunk with the head on.
    chunks: Vec<Chunk>,
    /// The chunks that follow when the running commit is durable.
    coming: Vec<Chunk>,
    /// The position of the next entry.
    at: RingPosition,
    /// An entry that is being written.
    writing: Option<ReservedEntry>,
    /// The state at the end of the transaction group that is committed.
    frozen: Option<HeadChange>,
    /// The requested size of the ring in bytes; 0 for no ring.
    wanted: u64,
    /// True if the next commit has to write the head.
    wants_head: bool,
    /// True if the last entry may be incomplete after a failure of devices. Then nothing is written after it.
    is_torn: bool,
    pub(super) pointed: PointedBytes,
}

/// The state of a log.
#[derive(Clone, Debug)]
enum LogStage {
    /// Entries from before the import wait to be replayed. The head stays.
    Waiting(LogHead),
    /// The log is off. The next commit frees these chunks.
    Off(Vec<Addr>),
    /// The log is in use.
    On,
}

/// A part of the ring.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    addr: Addr,
    shape: Shape,
    /// True if it is shut.
    is_shut: bool,
}

impl Chunk {
    fn group(&self) -> u32 {
        self.addr.segment().group()
    }

    /// Bytes of entries.
    fn size(&self) -> u32 {
        capacity(&self.addr, self.shape)
    }

    fn place(&self, offset: u32, len: u32) -> Addr {
        let at = self.addr.offset() + offset * self.shape.cell();
        Addr::new(self.addr.segment(), at, len)
    }

    fn extent(&self) -> StoredExtent {
        StoredExtent::of(&self.addr)
    }
}

/// A place in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RingPosition {
    chunk: usize,
    offset: u32,
}

/// The place of an entry that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReservedEntry {
    at: RingPosition,
    /// The place behind the previous entry.
    after: RingPosition,
    pub(crate) place: Addr,
    pub(crate) chain: u64,
    pub(crate) sequence: u64,
    pub(crate) flushed: u64,
    pub(crate) bound: PrecedingState,
}

/// The change of a commit to the head of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeadChange {
    /// Leave its head as it is.
    Keep,
    /// Write no head: the log is off.
    Off,
    /// Set it to the place of the next entry: sequence number, chunk, offset; and what that entry continues.
    From(u64, usize, u32, PrecedingState),
}

impl RingPosition {
    /// The same place in a ring without its first `chunks` chunks.
    fn without(self, chunks: usize) -> RingPosition {
        match self.chunk.checked_sub(chunks) {
            Some(chunk) => RingPosition { chunk, ..self },
            None => RingPosition::default(),
        }
    }
}

/// The test of whether a group can be written to.
pub(crate) type MayUse<'a> = &'a dyn Fn(u32) -> bool;

impl Ring {
    /// The ring of a dataset that is being opened.
    pub(crate) fn new(head: &LogHead) -> Ring {
        Ring {
            stage: if head.exists() {
                LogStage::Waiting(head.clone())
            } else {
                LogStage::Off(Vec::new())
            },
            chain: 0,
            sequence: 1,
            flushed: 0,
            bound: PrecedingState::default(),
            coming_state: None,
            unflushed: BTreeSet::new(),
            committing: BTreeSet::new(),
            chunks: Vec::new(),
            coming: Vec::new(),
            at: RingPosition::default(),
            writing: None,
            frozen: None,
            wanted: 0,
            wants_head: false,
            is_torn: false,
            pointed: PointedBytes::default(),
        }
    }

    /// The log that waits to be replayed.
    pub(crate) fn waiting(&self) -> Option<LogHead> {
        match &self.stage {
            LogStage::Waiting(head) => Some(head.clone()),
            LogStage::Off(_) | LogStage::On => None,
        }
    }

    /// The waiting log is replayed into the open transaction group and earlier ones.
    pub(crate) fn replayed(&mut self) {
        if let LogStage::Waiting(head) = &self.stage {
            self.stage = LogStage::Off(head.chunks.clone());
        }
    }

    /// Requests a ring of `bytes` bytes with the next commit, or none with 0. A new ring gets this name. Without a
    /// name only an existing ring grows.
    pub(crate) fn want(&mut self, bytes: u64, chain: u64) {
        if !matches!(self.stage, LogStage::On) {
            if bytes > 0 && chain == 0 {
                return;
            }
            self.chain = chain;
        }
        self.wanted = bytes;
    }

    /// The requested size in bytes.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Returns whether a commit must write the head, even if nothing else of the dataset changed.
    pub(crate) fn wants_commit(&self) -> bool {
        match &self.stage {
            LogStage::Waiting(_) => false,
            LogStage::Off(chunks) => !chunks.is_empty() || self.wanted > 0,
            LogStage::On => {
                self.wanted == 0
                    || self.wants_head
                    || self.is_torn
                    || self.chunks.iter().any(|c| c.is_shut)
            }
        }
    }

    /// Returns whether commits have no work for the log until a change is requested.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_unused = match &self.stage {
            LogStage::Waiting(_) => true,
            LogStage::Off(chunks) => chunks.is_empty(),
            LogStage::On => false,
        };
        is_unused && self.wanted == 0 && self.coming.is_empty() && self.pointed.is_none()
    }

    /// The place of the next entry, of `len` bytes. `None` if the log has no space for it now, or the entry is too
    /// long.
    pub(crate) fn reserve(&mut self, len: u32, may_use: MayUse<'_>) -> Option<ReservedEntry> {
        assert!(self.writing.is_none(), "one entry is written at a time");
        if len as usize > ENTRY_MAX || self.is_torn {
            return None;
        }
        debug_assert!(
            len > 0 && len.is_multiple_of(UNIT),
            "entries are whole units"
        );
        let fits = |position: &RingPosition| {
            let chunk = self.chunks.get(position.chunk);
            chunk.is_some_and(|chunk| {
                chunk.size() - position.offset >= len && !chunk.is_shut && may_use(chunk.group())
            })
        };
        let next = RingPosition {
            chunk: self.at.chunk + 1,
            offset: 0,
        };
        let at = [self.at, next].into_iter().find(fits)?;
        let chunk = &self.chunks[at.chunk];
        let reserved = ReservedEntry {
            at,
            after: self.at,
            place: chunk.place(at.offset, len),
            chain: self.chain,
            sequence: self.sequence,
            flushed: self.flushed,
            bound: self.bound,
        };
        self.writing = Some(reserved);
        self.at = RingPosition {
            offset: at.offset + len,
            ..at
        };
        self.sequence += 1;
        Some(reserved)
    }

    /// The entry is written: it and its records to these groups. The next one is linked to it.
    pub(crate) fn written(&mut self, link: Link, groups: impl IntoIterator<Item = u32>) {
        self.writing = None;
        self.bound.link = link;
        self.unflushed.extend(groups);
    }

    /// The groups to flush, so that all entries are durable.
    pub(crate) fn unflushed(&self) -> BTreeSet<u32> {
        &self.unflushed | &self.committing
    }

    /// Notes that these groups are flushed. No entry was written meanwhile.
    pub(crate) fn flushed(&mut self) {
        debug_assert!(self.writing.is_none(), "no entry was written meanwhile");
        self.flushed = self.sequence - 1;
        self.unflushed.clear();
        self.committing.clear();
    }

    /// Called when devices fail during the write of an entry, so that the entry may be incomplete. The next commit
    /// restarts the log.
    pub(crate) fn tear(&mut self) {
        self.writing = None;
        self.is_torn = true;
    }

    /// Writes nothing after the existing entries until the next commit restarts the log.
    pub(crate) fn tear_if_on(&mut self) {
        if matches!(self.stage, LogStage::On) {
            self.tear();
        }
    }

    /// The entry will not be written. The next entry gets its place and its sequence number.
    pub(crate) fn abandon(&mut self) {
        if let Some(reserved) = self.writing.take() {
            // Back to the end of the previous entry, where a reader looks for the next one.
            self.at = reserved.after;
            self.sequence = reserved.sequence;
        }
    }

    /// The bytes for entries until a commit frees space, and the bytes of all chunks.
    pub(crate) fn space(&self) -> (u64, u64) {
        let behind = self.chunks.get(self.at.chunk + 1..).unwrap_or_default();
        let here = self.chunks.get(self.at.chunk);
        let here = here.map_or(0, |chunk| u64::from(chunk.size() - self.at.offset));
        let all = total(&self.chunks) + total(&self.coming);
        (here + total(behind), all)
    }

    /// Remembers where the entries of the next transaction group begin.
    pub(crate) fn freeze(&mut self, may_use: MayUse<'_>) {
        self.pointed.freeze();
        // Until the commit is durable, a flush still has to include these groups.
        self.committing.append(&mut self.unflushed);
        for chunk in &mut self.chunks {
            chunk.is_shut |= !may_use(chunk.group());
        }
        let (at, sequence) = match &self.writing {
            // The entry that is being written may be of the next group.
            Some(reserved) => {
                // It may continue a state before this one. Then entries go on with that until the commit is durable:
                // a head accepts those of one state before its own.
                self.bound.state = reserved.bound.state;
                (reserved.at, reserved.sequence)
            }
            None => (self.next_position(), self.sequence),
        };
        self.frozen = Some(match self.stage {
            LogStage::Waiting(_) => HeadChange::Keep,
            LogStage::Off(_) => HeadChange::Off,
            LogStage::On => HeadChange::From(sequence, at.chunk, at.offset, self.bound),
        });
    }

    /// The place of the next entry, if none is being written. It is after the last entry, unless that chunk is shut. It
    /// is the end of the ring if the next chunk is not allocated yet.
    fn next_position(&self) -> RingPosition {
        let is_open = |chunk: usize| self.chunks.get(chunk).is_some_and(|chunk| !chunk.is_shut);
        let (chunk, offset) = match self.at.chunk {
            _ if self.is_torn => (self.chunks.len(), 0),
            here if is_open(here) => return self.at,
            here if is_open(here + 1) => (here + 1, 0),
            _ => (self.chunks.len(), 0),
        };
        RingPosition { chunk, offset }
    }

    /// Writes the head that the commit makes durable into the dataset's entry.
    pub(crate) fn enter(&mut self, commit: &TxgWriter<'_>, entry: &mut Entry) -> Result<()> {
        match self.frozen.take() {
            None | Some(HeadChange::Keep) => Ok(()),
            Some(HeadChange::Off) => self.enter_off(commit, entry),
            Some(HeadChange::From(sequence, chunk, offset, bound)) => self.enter_on(
                commit,
                entry,
                (sequence, bound),
                RingPosition { chunk, offset },
            ),
        }
    }

    fn enter_off(&mut self, commit: &TxgWriter<'_>, entry: &mut Entry) -> Result<()> {
        if let LogStage::Off(chunks) = &mut self.stage {
            commit.free_extents(chunks.drain(..).map(|chunk| StoredExtent::of(&chunk)));
        }
        entry.log = LogHead::default();
        if self.wanted == 0 {
            return Ok(());
        }
        self.coming = self.grow(commit, 0, 0)?;
        if self.coming.is_empty() {
            return Ok(());
        }
        self.stage = LogStage::On;
        self.at = RingPosition::default();
        (self.sequence, self.flushed) = (1, 0);
        self.bound = PrecedingState::default();
        self.chunks.clear();
        self.enter_head(entry, self.head(commit.txg(), self.sequence, 0));
        Ok(())
    }

    fn enter_on(
        &mut self,
        commit: &TxgWriter<'_>,
        entry: &mut Entry,
        (sequence, bound): (u64, PrecedingState),
        from: RingPosition,
    ) -> Result<()> {
        // An incomplete entry does not count.
        let is_idle = self.writing.is_none() && self.sequence == sequence;
        if self.wanted == 0 && is_idle {
            commit.free_extents(self.chunks.drain(..).map(|chunk| chunk.extent()));
            self.stage = LogStage::Off(Vec::new());
            self.is_torn = false;
            entry.log = LogHead::default();
            return Ok(());
        }
        debug_assert!(from.chunk <= self.chunks.len());
        // The arrays have all entries before the new head. The chunks of these go to the end of the ring.
        let mut spare: Vec<Chunk> = self.chunks.drain(..from.chunk).collect();
        self.at = self.at.without(from.chunk);
        if let Some(reserved) = &mut self.writing {
            reserved.at = reserved.at.without(from.chunk);
            reserved.after = reserved.after.without(from.chunk);
        }
        if self.chunks.is_empty() {
            self.is_torn = false;
        }
        self.give_back(commit, &mut spare);
        let capacity = total(&self.chunks) + total(&spare);
        if capacity < self.wanted {
            let count = self.chunks.len() + spare.len();
            if count == CHUNKS_MAX {
                // The head has no space for more chunks. Larger ones take the place of the spare ones.
                commit.free_extents(spare.drain(..).map(|chunk| chunk.extent()));
            }
            let kept = total(&self.chunks) + total(&spare);
            let grown = self.grow(commit, self.chunks.len() + spare.len(), kept)?;
            spare.extend(grown);
        }
        self.coming = spare;
        let head = LogHead {
            before: before(&bound.state, &bound.link),
            ..self.head(commit.txg(), sequence, from.offset)
        };
        self.enter_head(entry, head);
        Ok(())
    }

    /// Makes the next commit write the head, with a name for the state that results.
    pub(crate) fn want_head(&mut self) {
        self.wants_head = true;
    }

    /// The commit gives an entry another state than the one that was named.
    pub(crate) fn resealed(&mut self, entry: &mut Entry) {
        if self.coming_state.is_some() {
            self.name_state(entry);
        }
    }

    /// Gives an entry with its new roots a head, with a name for the state that results.
    fn enter_head(&mut self, entry: &mut Entry, head: LogHead) {
        entry.log = head;
        self.wants_head = false;
        self.name_state(entry);
    }

    fn name_state(&mut self, entry: &mut Entry) {
        entry.log.state = SealInput::of(entry, entry.guid).state();
        self.coming_state = Some(entry.log.state);
    }

    /// Frees spare chunks that are shut. Also frees spare chunks among records, if the groups for logs have space
    /// for the whole ring.
    fn give_back(&mut self, commit: &TxgWriter<'_>, spare: &mut Vec<Chunk>) {
        let space = &commit.core.space;
        let has_better = space.log_bytes() >= self.wanted;
        let is_unwanted = |chunk: &Chunk| {
            chunk.is_shut
                || !space.takes_logs(chunk.group())
                || has_better && !space.is_for_logs(chunk.group())
        };
        // All chunks ahead are removed or none: after a crash, a reader of the last commit's log goes from one
        // chunk to the next.
        let ahead = (self.at.chunk + 1).min(self.chunks.len());
        if self.chunks[ahead..].iter().any(is_unwanted) {
            spare.extend(self.chunks.split_off(ahead));
        }
        let unwanted = spare.extract_if(.., |chunk| is_unwanted(chunk));
        commit.free_extents(unwanted.map(|chunk| chunk.extent()));
    }

    /// Adds chunks until the ring has the requested size, or no more space can be had.
    fn grow(&self, commit: &TxgWriter<'_>, mut count: usize, mut bytes: u64) -> Result<Vec<Chunk>> {
        let largest = commit.core.disk.store.segment_size();
        // With parity a chunk holds less than its size, but at least 1 / `part` of it.
        let part = commit.core.space.largest_cell();
        // So that the ring has its size in fewer chunks than a head lists.
        let size = self.wanted * u64::from(part) / (CHUNKS_MAX as u64 - 2);
        let size = size.max(CHUNK_OF_SMALL_RING.min(self.wanted / 4));
        let mut size = u32::try_from(size).unwrap_or(largest).next_power_of_two();
        size = size.clamp(CHUNK_MIN, largest);
        commit.core.note_log();
        let mut chunks = Vec::new();
        while bytes < self.wanted && count < CHUNKS_MAX {
            match find_chunk(commit, bytes, size) {
                Ok(extent) => {
                    commit.note_allocated(extent);
                    let chunk = Chunk {
                        addr: extent.addr(),
                        shape: commit.core.disk.store.shape(extent.segment.group()),
                        is_shut: false,
                    };
                    let filled = fill(commit, &chunk);
                    let space = &commit.core.space;
                    if space.is_for_logs(chunk.group()) {
                        // A log device is failing: no log may be there.
                        if filled.is_err() || !space.takes_logs(chunk.group()) {
                            commit.free_extents([extent]);
                            break;
                        }
                    } else {
                        filled?;
                    }
                    count += 1;
                    bytes += u64::from(chunk.size());
                    chunks.push(chunk);
                }
                Err(_) if size > CHUNK_MIN => size /= 2,
                Err(_) => break,
            }
        }
        Ok(chunks)
    }

    fn head(&self, base: u64, sequence: u64, offset: u32) -> LogHead {
        LogHead {
            chain: self.chain,
            sequence,
            base,
            offset,
            state: State::default(),
            before: State::default(),
            chunks: self
                .chunks
                .iter()
                .chain(&self.coming)
                .map(|c| c.addr)
                .collect(),
        }
    }

    /// The commit is durable.
    pub(crate) fn on_durable(&mut self) {
        // Not before: the last durable head does not list these chunks.
        self.chunks.append(&mut self.coming);
        if let Some(state) = self.coming_state.take() {
            self.bound.state = state;
        }
        self.pointed.on_durable();
        self.committing.clear();
    }
}

/// Allocates a chunk for a ring of `bytes` bytes: in a group for logs, if one has space.
fn find_chunk(commit: &TxgWriter<'_>, bytes: u64, size: u32) -> Result<StoredExtent> {
    let space = &commit.core.space;
    if bytes + u64::from(size) <= space.log_bytes()
        && let Some(extent) = space.allocate_log(size / UNIT)?
    {
        return Ok(extent);
    }
    // The log does not take space that is reserved for others, nor the last free space.
    if (bytes + u64::from(size)) * FREE_PART > space.unreserved_bytes() {
        return Err(Error::NoSpace);
    }
    // Only until the chunk is allocated: then its units are taken.
    let _reserved = space.reserve(u64::from(size), ReserveFor::Writing)?;
    space.allocate(Class::Data, size / UNIT, None)
}

/// Writes a whole chunk once. In a file, a flush of a block that was never written takes much longer.
fn fill(commit: &TxgWriter<'_>, chunk: &Chunk) -> Result<()> {
    static ZEROS: [u8; FILL_STEP as usize] = [0; FILL_STEP as usize];
    let store = &commit.core.disk.store;
    for at in (0..chunk.size()).step_by(ZEROS.len()) {
        let len = (chunk.size() - at).min(FILL_STEP);
        let zeros = &ZEROS[..len as usize];
        let place = chunk.place(at, len);
        match chunk.shape.has_parity() {
            true => {
                let units: Vec<&[u8]> = zeros.chunks(UNIT as usize).collect();
                store.write_each(place.segment(), place.offset(), &units)?;
            }
            false => store.write(place.segment(), place.offset(), &[IoSlice::new(zeros)])?,
        }
    }
    Ok(())
}

fn total(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.size())).sum()
}

#[cfg(test)]
mod tests;
