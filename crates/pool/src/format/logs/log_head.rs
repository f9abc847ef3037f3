//! The start of the log of a dataset.

use store::{Shape, UNIT};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::format::logs::log_state::{PrecedingState, State, before};
use crate::format::records::extent::StoredExtent;
use crate::format::records::pointer::{Addr, RecordLocation};

/// A log has at most so many chunks.
pub(crate) const CHUNKS_MAX: usize = 12;

/// Returns the number of bytes of entries for which a chunk has space. In a group with parity each unit of an entry is
/// a stripe, which has its own parity and can be written without those around it.
pub(crate) fn capacity(chunk: &Addr, shape: Shape) -> u32 {
    shape.singles(chunk.size() / UNIT) * UNIT
}

/// The beginning of the log of a dataset. With no chunks there is no log; the other numbers then still say what the
/// dataset's seal was made over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHead {
    /// Names the ring since it was set up, random; 0: there was none.
    pub chain: u64,
    /// The sequence of the first entry.
    pub sequence: u64,
    /// The arrays have all changes up to this transaction group.
    pub base: u64,
    /// Names the state that the head is of, for entries that continue it; zeros of a program that had no such names.
    pub(crate) state: State,
    /// Names the state before and the entry before the first one, see [`before`]; zeros if the log began with this
    /// state.
    pub(crate) before: State,
    /// The offset of the first entry in the first chunk.
    pub(crate) offset: u32,
    /// The ring, from the chunk with the first entry on.
    pub(crate) chunks: Vec<Addr>,
}

/// A head as it is stored in an entry of the dataset table.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct HeadRecord {
    chain: U64,
    sequence: U64,
    base: U64,
    offset: U32,
    count: U32,
    state: State,
    before: State,
    chunks: [Addr; CHUNKS_MAX],
}

const _: () = assert!(size_of::<HeadRecord>() == 256);

impl LogHead {
    /// Returns whether entries may wait in it.
    pub fn exists(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Returns whether the log is of a program that did not bind entries to states.
    pub(crate) fn is_unbound(&self) -> bool {
        self.state == State::default()
    }

    /// Returns whether an entry may be the first one: it was written in this state, or while the commit was under way
    /// that made the state.
    pub(crate) fn is_continued_by(&self, entry: &PrecedingState) -> bool {
        entry.state == self.state || before(&entry.state, &entry.link) == self.before
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| u64::from(chunk.size()))
            .sum()
    }

    /// Returns whether entries of the log `chain` may point to a place.
    pub(crate) fn points_to(&self, chain: u64, place: &RecordLocation) -> bool {
        self.exists() && self.chain == chain && place.birth() > self.base
    }

    /// The part of a head that the seal of the dataset covers, without the log itself.
    pub(crate) fn without_chunks(&self) -> LogHead {
        LogHead {
            offset: 0,
            chunks: Vec::new(),
            ..self.clone()
        }
    }

    /// The runs that it consists of, from the one with the first entry on.
    pub fn chunks(&self) -> &[Addr] {
        &self.chunks
    }

    /// Returns the offset of the first entry in the first chunk.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    pub(crate) fn extents(&self) -> impl Iterator<Item = StoredExtent> {
        self.chunks.iter().map(StoredExtent::of)
    }

    pub(crate) fn to_record(&self) -> HeadRecord {
        let mut record = HeadRecord::new_zeroed();
        record.chain = self.chain.into();
        record.sequence = self.sequence.into();
        record.base = self.base.into();
        (record.state, record.before) = (self.state, self.before);
        record.offset = self.offset.into();
        record.count = (self.chunks.len() as u32).into();
        record.chunks[..self.chunks.len()].copy_from_slice(&self.chunks);
        record
    }

    /// `None` if the numbers cannot be.
    pub(crate) fn from_record(record: &HeadRecord) -> Option<LogHead> {
        let chunks = record.chunks.get(..record.count.get() as usize)?;
        let whole = |n: u32| n.is_multiple_of(store::UNIT);
        let is_run = |chunk: &Addr| {
            let end = chunk.offset().checked_add(chunk.size());
            chunk.size() > 0 && whole(chunk.size()) && whole(chunk.offset()) && end.is_some()
        };
        let offset = record.offset.get();
        let begins = chunks
            .first()
            .map_or(offset == 0, |first| offset <= first.size());
        let counts = [record.sequence, record.base];
        let fits = counts.iter().all(|n| n.get() < 1 << 62);
        (chunks.iter().all(is_run) && begins && whole(offset) && fits).then(|| LogHead {
            chain: record.chain.get(),
            sequence: record.sequence.get(),
            base: record.base.get(),
            state: record.state,
            before: record.before,
            offset,
            chunks: chunks.to_vec(),
        })
    }
}

#[cfg(test)]
pub(crate) fn sample() -> LogHead {
    use store::SegmentId;
    LogHead {
        chain: 1,
        sequence: 2,
        base: 3,
        state: [4; 16],
        before: [5; 16],
        offset: 4096,
        chunks: vec![
            Addr::new(SegmentId::new(0, 5), 8192, 65536),
            Addr::new(SegmentId::new(1, 6), 0, 4096),
        ],
    }
}

#[cfg(test)]
mod tests {
    use store::SegmentId;

    use super::*;

    #[test]
    fn heads_round_trip_and_impossible_ones_are_refused() {
        let head = sample();
        assert_eq!(LogHead::from_record(&head.to_record()), Some(head.clone()));
        let none = LogHead::default();
        assert_eq!(LogHead::from_record(&none.to_record()), Some(none));
        let refused = |change: &dyn Fn(&mut HeadRecord)| {
            let mut record = head.to_record();
            change(&mut record);
            LogHead::from_record(&record).is_none()
        };
        assert!(refused(&|r| r.count = 13.into()));
        assert!(refused(&|r| r.offset = 4097.into()));
        assert!(refused(&|r| r.offset = 69632.into()));
        assert!(refused(&|r| r.chunks[1] = Addr::default()));
        assert!(refused(&|r| r.sequence = u64::MAX.into()));
        let beyond = Addr::new(SegmentId::new(0, 0), u32::MAX - 4095, 8192);
        assert!(refused(&|r| r.chunks[0] = beyond));
    }
}
