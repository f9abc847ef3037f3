//! The ring of a log in memory: where the next entry goes, and what a commit makes of it.
//!
//! A chunk is used only once the commit that gave it to the dataset is durable, and again only once
//! the commit is durable that moved the head past it.

use store::{Shape, UNIT};

use super::entry::ENTRY_MAX;
use super::{CHUNKS_MAX, LogHead, capacity};
use crate::commit::Commit;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::layout::Addr;
use crate::space::{Class, Extent, ReserveFor};

/// A log takes no more than this part of what is free.
const FREE_PART: u64 = 16;
/// No chunk is smaller than this.
const CHUNK_MIN: u32 = 64 << 10;

/// What is known of a dataset's log while it is open.
pub(crate) struct Ring {
    stage: Stage,
    chain: u64,
    /// The sequence of the next entry.
    sequence: u64,
    /// Entries up to this one are durable.
    flushed: u64,
    /// The ring as far as the last commit has it, from the chunk with the head on.
    chunks: Vec<Chunk>,
    /// What comes behind once the commit under way is durable.
    coming: Vec<Chunk>,
    /// Where the next entry goes.
    at: Position,
    /// An entry on its way to the device.
    writing: Option<Reserved>,
    /// The state at the end of the transaction group that is being committed.
    frozen: Option<Frozen>,
    /// Bytes that the ring should have; 0: there should be none.
    wanted: u64,
}

/// What a log is there for.
#[derive(Clone, Debug)]
enum Stage {
    /// Entries of an earlier time wait to be replayed. The head stays.
    Waiting(LogHead),
    /// No entry can be written. The next commit frees these chunks.
    Off(Vec<Addr>),
    /// Entries go to the ring.
    On,
}

/// A part of the ring.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    addr: Addr,
    shape: Shape,
}

impl Chunk {
    /// Bytes of entries.
    fn size(&self) -> u32 {
        capacity(&self.addr, self.shape)
    }

    fn place(&self, offset: u32, len: u32) -> Addr {
        let at = self.addr.offset() + offset * self.shape.cell();
        Addr::new(self.addr.segment(), at, len)
    }

    fn extent(&self) -> Extent {
        Extent::of(&self.addr)
    }
}

/// A place in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    chunk: usize,
    offset: u32,
}

/// The place of an entry that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    at: Position,
    pub(crate) place: Addr,
    pub(crate) chain: u64,
    pub(crate) sequence: u64,
    pub(crate) flushed: u64,
}

/// What a commit has to do with a log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frozen {
    /// Leave its head as it is.
    Keep,
    /// It was off.
    Off,
    /// Begin it where the next entry was to go, with its sequence.
    From(u64, usize, u32),
}

impl Ring {
    /// The ring of a dataset that is being opened.
    pub(crate) fn new(head: &LogHead) -> Ring {
        Ring {
            stage: if head.exists() {
                Stage::Waiting(head.clone())
            } else {
                Stage::Off(Vec::new())
            },
            chain: 0,
            sequence: 1,
            flushed: 0,
            chunks: Vec::new(),
            coming: Vec::new(),
            at: Position::default(),
            writing: None,
            frozen: None,
            wanted: 0,
        }
    }

    /// The log that waits to be replayed.
    pub(crate) fn waiting(&self) -> Option<LogHead> {
        match &self.stage {
            Stage::Waiting(head) => Some(head.clone()),
            Stage::Off(_) | Stage::On => None,
        }
    }

    /// What waited is replayed, into the open transaction group and those before it.
    pub(crate) fn replayed(&mut self) {
        if let Stage::Waiting(head) = &self.stage {
            self.stage = Stage::Off(head.chunks.clone());
        }
    }

    /// Asks for a ring of so many bytes with the next commit, 0 for none. If there is none yet it
    /// will have this name; without a name only one that is there grows.
    pub(crate) fn want(&mut self, bytes: u64, chain: u64) {
        if !matches!(self.stage, Stage::On) {
            if bytes > 0 && chain == 0 {
                return;
            }
            self.chain = chain;
        }
        self.wanted = bytes;
    }

    /// How many bytes it should have.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Whether a commit must write its head, though nothing else of the dataset changed.
    pub(crate) fn wants_commit(&self) -> bool {
        match &self.stage {
            Stage::Waiting(_) => false,
            Stage::Off(chunks) => !chunks.is_empty() || self.wanted > 0,
            Stage::On => self.wanted == 0,
        }
    }

    /// The place of the next entry, of `len` bytes. `None` if there is no room for it now, or no entry
    /// is as long.
    pub(crate) fn reserve(&mut self, len: u32) -> Option<Reserved> {
        assert!(self.writing.is_none(), "one entry is written at a time");
        if len as usize > ENTRY_MAX {
            return None;
        }
        let fits = |position: &Position| {
            let chunk = self.chunks.get(position.chunk);
            chunk.is_some_and(|chunk| chunk.size() - position.offset >= len)
        };
        let next = Position {
            chunk: self.at.chunk + 1,
            offset: 0,
        };
        let at = [self.at, next].into_iter().find(fits)?;
        let chunk = &self.chunks[at.chunk];
        let reserved = Reserved {
            at,
            place: chunk.place(at.offset, len),
            chain: self.chain,
            sequence: self.sequence,
            flushed: self.flushed,
        };
        self.writing = Some(reserved);
        self.at = Position {
            offset: at.offset + len,
            ..at
        };
        self.sequence += 1;
        Some(reserved)
    }

    /// The entry is durable.
    pub(crate) fn written(&mut self) {
        if let Some(reserved) = self.writing.take() {
            self.flushed = reserved.sequence;
        }
    }

    /// The entry will not be written: its place and its sequence are the next one's.
    pub(crate) fn abandon(&mut self) {
        if let Some(reserved) = self.writing.take() {
            self.at = reserved.at;
            self.sequence = reserved.sequence;
        }
    }

    /// Bytes that entries may still take before a commit makes room, and those of all chunks.
    pub(crate) fn room(&self) -> (u64, u64) {
        let behind = self.chunks.get(self.at.chunk + 1..).unwrap_or_default();
        let here = self.chunks.get(self.at.chunk);
        let here = here.map_or(0, |chunk| u64::from(chunk.size() - self.at.offset));
        let all = total(&self.chunks) + total(&self.coming);
        (here + total(behind), all)
    }

    /// Remembers where the log of the next transaction group begins.
    pub(crate) fn freeze(&mut self) {
        let (at, sequence) = match &self.writing {
            // What is being written may be of the next group.
            Some(reserved) => (reserved.at, reserved.sequence),
            None => (self.at, self.sequence),
        };
        self.frozen = Some(match self.stage {
            Stage::Waiting(_) => Frozen::Keep,
            Stage::Off(_) => Frozen::Off,
            Stage::On => Frozen::From(sequence, at.chunk, at.offset),
        });
    }

    /// Writes the head that the commit makes durable into the dataset's entry.
    pub(crate) fn enter(&mut self, commit: &Commit<'_>, entry: &mut Entry) -> Result<()> {
        match self.frozen.take() {
            None | Some(Frozen::Keep) => Ok(()),
            Some(Frozen::Off) => self.enter_off(commit, entry),
            Some(Frozen::From(sequence, chunk, offset)) => {
                self.enter_on(commit, entry, sequence, Position { chunk, offset })
            }
        }
    }

    fn enter_off(&mut self, commit: &Commit<'_>, entry: &mut Entry) -> Result<()> {
        if let Stage::Off(chunks) = &mut self.stage {
            commit.free_extents(chunks.drain(..).map(|chunk| Extent::of(&chunk)));
        }
        entry.log = LogHead::default();
        if self.wanted == 0 {
            return Ok(());
        }
        self.coming = self.grow(commit, 0, 0)?;
        if self.coming.is_empty() {
            return Ok(());
        }
        self.stage = Stage::On;
        self.at = Position::default();
        (self.sequence, self.flushed) = (1, 0);
        self.chunks.clear();
        entry.log = self.head(commit.txg(), self.sequence, 0);
        Ok(())
    }

    fn enter_on(
        &mut self,
        commit: &Commit<'_>,
        entry: &mut Entry,
        sequence: u64,
        from: Position,
    ) -> Result<()> {
        let is_idle = self.writing.is_none() && self.sequence == sequence;
        if self.wanted == 0 && is_idle {
            commit.free_extents(self.chunks.drain(..).map(|chunk| chunk.extent()));
            self.stage = Stage::Off(Vec::new());
            entry.log = LogHead::default();
            return Ok(());
        }
        let mut spare: Vec<Chunk> = self.chunks.drain(..from.chunk).collect();
        self.at.chunk -= from.chunk;
        if let Some(reserved) = &mut self.writing {
            reserved.at.chunk -= from.chunk;
        }
        let capacity = total(&self.chunks) + total(&spare);
        if capacity < self.wanted {
            let count = self.chunks.len() + spare.len();
            if count == CHUNKS_MAX {
                commit.free_extents(spare.drain(..).map(|chunk| chunk.extent()));
            }
            let kept = total(&self.chunks) + total(&spare);
            let grown = self.grow(commit, self.chunks.len() + spare.len(), kept)?;
            spare.extend(grown);
        }
        self.coming = spare;
        entry.log = self.head(commit.txg(), sequence, from.offset);
        Ok(())
    }

    /// More chunks, until there are as many bytes as wanted, or no more can be had.
    fn grow(&self, commit: &Commit<'_>, mut count: usize, mut bytes: u64) -> Result<Vec<Chunk>> {
        let space = &commit.shared.space;
        let largest = commit.shared.disk.store.segment_size();
        // With parity a chunk has room for less than its size, but for no less than this part of it.
        let part = commit.shared.space.largest_cell();
        let size = self.wanted * u64::from(part) / (CHUNKS_MAX as u64 - 2);
        let mut size = u32::try_from(size).unwrap_or(largest).next_power_of_two();
        size = size.clamp(CHUNK_MIN, largest);
        commit.shared.note_log();
        let mut chunks = Vec::new();
        while bytes < self.wanted && count < CHUNKS_MAX {
            // What others were promised is not for the log, nor the last that is free.
            let is_modest = (bytes + u64::from(size)) * FREE_PART <= space.unreserved_bytes();
            let room = if is_modest {
                space.reserve(u64::from(size), ReserveFor::Writing)
            } else {
                Err(Error::NoSpace)
            };
            let found = room.and_then(|_room| space.allocate(Class::Data, size / UNIT, None));
            match found {
                Ok(extent) => {
                    commit.note_allocated(extent);
                    let chunk = Chunk {
                        addr: extent.addr(),
                        shape: commit.shared.disk.store.shape(extent.segment.group()),
                    };
                    fill(commit, &chunk)?;
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
            chunks: self
                .chunks
                .iter()
                .chain(&self.coming)
                .map(|c| c.addr)
                .collect(),
        }
    }

    /// The commit is durable.
    pub(crate) fn settle(&mut self) {
        self.chunks.append(&mut self.coming);
    }
}

/// Writes a chunk whole. In a file, a block that was never written costs a flush much more.
fn fill(commit: &Commit<'_>, chunk: &Chunk) -> Result<()> {
    static ZEROS: [u8; CHUNK_MIN as usize] = [0; CHUNK_MIN as usize];
    let store = &commit.shared.disk.store;
    for at in (0..chunk.size()).step_by(ZEROS.len()) {
        let len = (chunk.size() - at).min(CHUNK_MIN);
        let units: Vec<&[u8]> = ZEROS[..len as usize].chunks(UNIT as usize).collect();
        let place = chunk.place(at, len);
        store.write_each(place.segment(), place.offset(), &units)?;
    }
    Ok(())
}

fn total(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.size())).sum()
}

#[cfg(test)]
mod tests {
    use store::SegmentId;

    use super::*;

    fn ring(sizes: &[u32]) -> Ring {
        let mut ring = Ring::new(&LogHead::default());
        let chunk = |(n, size): (usize, &u32)| Chunk {
            addr: Addr::new(SegmentId::new(0, n as u32), 0, *size),
            shape: Shape::WHOLE,
        };
        ring.chunks = sizes.iter().enumerate().map(chunk).collect();
        ring
    }

    #[test]
    fn entries_fill_chunk_after_chunk() {
        let mut ring = ring(&[65536, 65536]);
        for (n, segment) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            let reserved = ring.reserve(24576).unwrap();
            assert_eq!(reserved.sequence, 1 + n);
            assert_eq!(reserved.place.segment(), SegmentId::new(0, segment));
            assert_eq!(reserved.flushed, n);
            ring.written();
        }
        assert!(ring.reserve(24576).is_none());
        assert_eq!(ring.room(), (16384, 131_072));
    }

    #[test]
    fn an_abandoned_entry_leaves_no_gap() {
        let mut ring = ring(&[65536]);
        let first = ring.reserve(8192).unwrap();
        ring.abandon();
        let second = ring.reserve(4096).unwrap();
        assert_eq!((first.sequence, first.place.offset()), (1, 0));
        assert_eq!((second.sequence, second.place.offset()), (1, 0));
    }

    #[test]
    fn no_entry_is_written_that_could_not_be_read() {
        let mut ring = ring(&[8 << 20]);
        assert!(ring.reserve(ENTRY_MAX as u32 + 4096).is_none());
        assert!(ring.reserve(ENTRY_MAX as u32).is_some());
    }
}
