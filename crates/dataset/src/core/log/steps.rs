//! The bytes of a log entry: steps, one after the other.
//!
//! The payload of an entry begins with the chain and the sequence of the entry, so that the seal
//! binds them, and the length of the steps. Numbers are little-endian.

use pool::RecordPtr;
use vfs::Ino;
use zerocopy::{FromBytes, IntoBytes};

use crate::tree::CELL_MAX;

/// Bytes before the steps.
pub(crate) const PREAMBLE: usize = 24;

const EDITS: u8 = 1;
const CONTENTS: u8 = 2;
const RECORD: u8 = 3;
const EMPTY: u8 = 4;
/// A value length that says that the key is deleted.
const DELETED: u32 = u32::MAX;
/// The largest record of a file.
const RECORD_MAX: usize = pool::RECORD_MAX as usize;
/// A step has at most this many keys, so that it can be applied with little memory.
const KEYS_MAX: usize = 64;

/// Changes of the tree.
pub(crate) use crate::tree::Changes as Edits;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) next_ino: u64,
    pub(crate) next_data: u64,
}

/// A change to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogStep<'a> {
    /// Keys and values of the tree, and the least values of the counters.
    Edits(Counters, Vec<(&'a [u8], Option<&'a [u8]>)>),
    /// Contents of a file.
    Contents(ContentsStep<'a>),
    /// A whole record of a file.
    Record(LoggedRecord),
    /// An emptied block of a volume.
    Empty {
        /// The inode of the volume.
        ino: Ino,
        /// The number of the block.
        record: u64,
    },
}

/// A record of a file that is already in its final place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedRecord {
    pub(crate) ino: Ino,
    pub(crate) record: u64,
    pub(crate) ptr: RecordPtr,
}

/// Bytes of a record of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentsStep<'a> {
    pub(crate) ino: Ino,
    pub(crate) record: u64,
    /// Their offset in the record.
    pub(crate) start: usize,
    /// True if they replace the whole record.
    pub(crate) is_whole: bool,
    pub(crate) bytes: &'a [u8],
}

/// Appends changes of the tree, in steps that can be applied with little memory.
pub(crate) fn put_edits(out: &mut Vec<u8>, txg: u64, counters: Counters, edits: &Edits) {
    let all: Vec<_> = edits.iter().collect();
    for some in all.chunks(KEYS_MAX) {
        out.push(EDITS);
        out.extend(txg.to_le_bytes());
        out.extend(counters.next_ino.to_le_bytes());
        out.extend(counters.next_data.to_le_bytes());
        out.extend((some.len() as u32).to_le_bytes());
        for (key, value) in some {
            let len = value.as_ref().map_or(DELETED, |value| value.len() as u32);
            out.extend((key.len() as u16).to_le_bytes());
            out.extend(len.to_le_bytes());
            out.extend_from_slice(key);
            out.extend_from_slice(value.as_deref().unwrap_or_default());
        }
    }
}

/// Appends contents.
pub(crate) fn put_contents(out: &mut Vec<u8>, txg: u64, contents: &ContentsStep<'_>) {
    out.push(CONTENTS);
    out.extend(txg.to_le_bytes());
    out.extend(contents.ino.to_le_bytes());
    out.extend(contents.record.to_le_bytes());
    out.extend((contents.start as u32).to_le_bytes());
    out.push(u8::from(contents.is_whole));
    out.extend((contents.bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(contents.bytes);
}

/// Appends a record.
pub(crate) fn put_record(out: &mut Vec<u8>, txg: u64, logged: &LoggedRecord) {
    out.push(RECORD);
    out.extend(txg.to_le_bytes());
    out.extend(logged.ino.to_le_bytes());
    out.extend(logged.record.to_le_bytes());
    out.extend(logged.ptr.as_bytes());
}

/// Appends that a block of a volume is empty.
pub(crate) fn put_empty(out: &mut Vec<u8>, txg: u64, ino: Ino, record: u64) {
    out.push(EMPTY);
    out.extend(txg.to_le_bytes());
    out.extend(ino.to_le_bytes());
    out.extend(record.to_le_bytes());
}

/// The bytes before the steps of an entry.
pub(crate) fn preamble(chain: u64, sequence: u64, len: usize) -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[0..8].copy_from_slice(&chain.to_le_bytes());
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes[16..24].copy_from_slice(&(len as u64).to_le_bytes());
    bytes
}

/// The steps of an entry, if its preamble is that of `chain` and `sequence`.
pub(crate) fn steps_of(payload: &[u8], chain: u64, sequence: u64) -> Option<Steps<'_>> {
    let (head, rest) = payload.split_at_checked(PREAMBLE)?;
    let len = u64::from_le_bytes(head[16..24].try_into().ok()?);
    let len = usize::try_from(len).ok()?;
    let bytes = rest.get(..len)?;
    (head == preamble(chain, sequence, len)).then_some(Steps { bytes })
}

/// Reads steps one after the other. Any bytes give a step or an error.
pub(crate) struct Steps<'a> {
    bytes: &'a [u8],
}

impl<'a> Steps<'a> {
    /// The next step and its transaction group; `None` at the end. An error if the bytes are not a step.
    pub(crate) fn next(&mut self) -> Option<Result<(u64, LogStep<'a>), MalformedStep>> {
        if self.bytes.is_empty() {
            return None;
        }
        Some(self.step().ok_or(MalformedStep))
    }

    fn step(&mut self) -> Option<(u64, LogStep<'a>)> {
        let kind = self.take(1)?[0];
        let txg = self.u64()?;
        let step = match kind {
            EDITS => self.edits()?,
            CONTENTS => self.contents()?,
            RECORD => self.record()?,
            EMPTY => LogStep::Empty {
                ino: self.u64()?,
                record: self.u64()?,
            },
            _ => return None,
        };
        Some((txg, step))
    }

    fn edits(&mut self) -> Option<LogStep<'a>> {
        let counters = Counters {
            next_ino: self.u64()?,
            next_data: self.u64()?,
        };
        let count = self.u32()?;
        let mut edits = Vec::new();
        for _ in 0..count {
            let key_len = usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?));
            let value_len = self.u32()?;
            let key = self.take(key_len)?;
            let value = match value_len {
                DELETED => None,
                len => Some(self.take(len as usize)?),
            };
            let is_key = key_len > size_of::<Ino>();
            if !is_key || key_len + value.map_or(0, <[u8]>::len) > CELL_MAX {
                return None;
            }
            edits.push((key, value));
        }
        Some(LogStep::Edits(counters, edits))
    }

    fn contents(&mut self) -> Option<LogStep<'a>> {
        let ino = self.u64()?;
        let record = self.u64()?;
        let start = self.u32()? as usize;
        let is_whole = self.take(1)?[0] != 0;
        let len = self.u32()? as usize;
        let bytes = self.take(len)?;
        let fits = len > 0 && start.checked_add(len)? <= RECORD_MAX && !(is_whole && start > 0);
        fits.then_some(LogStep::Contents(ContentsStep {
            ino,
            record,
            start,
            is_whole,
            bytes,
        }))
    }

    fn record(&mut self) -> Option<LogStep<'a>> {
        Some(LogStep::Record(LoggedRecord {
            ino: self.u64()?,
            record: self.u64()?,
            ptr: RecordPtr::read_from_bytes(self.take(size_of::<RecordPtr>())?).ok()?,
        }))
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

/// The error for bytes that are not a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedStep;

/// Steps of all kinds.
#[cfg(any(test, fuzzing))]
pub(crate) fn sample() -> Vec<u8> {
    let counters = Counters {
        next_ino: 5,
        next_data: 6,
    };
    let edits = Edits::from([
        (vec![1; 9], Some(vec![2; 128])),
        (vec![3; 9], None),
        (vec![4; 9], Some(Vec::new())),
    ]);
    let mut out = Vec::new();
    put_edits(&mut out, 7, counters, &edits);
    let contents = ContentsStep {
        ino: 8,
        record: 9,
        start: 10,
        is_whole: false,
        bytes: &[11; 100],
    };
    put_contents(&mut out, 12, &contents);
    let logged = LoggedRecord {
        ino: 13,
        record: 14,
        ptr: RecordPtr::EMPTY,
    };
    put_record(&mut out, 15, &logged);
    out
}

/// Reads steps to their end, or to the first that is none.
#[cfg(any(test, fuzzing))]
pub(crate) fn decode_all(bytes: &[u8]) {
    let mut steps = Steps { bytes };
    while let Some(Ok(_)) = steps.next() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> Vec<u8> {
        let steps = sample();
        let mut payload = preamble(1, 2, steps.len()).to_vec();
        payload.extend(&steps);
        payload.resize(4096, 0);
        payload
    }

    #[test]
    fn steps_round_trip() {
        let payload = payload();
        let mut steps = steps_of(&payload, 1, 2).unwrap();
        let (txg, edits) = steps.next().unwrap().unwrap();
        assert_eq!(txg, 7);
        let LogStep::Edits(counters, edits) = edits else {
            panic!("{edits:?}")
        };
        assert_eq!((counters.next_ino, counters.next_data), (5, 6));
        assert_eq!(edits.len(), 3);
        assert_eq!(edits[1], (&[3; 9][..], None));
        let (txg, contents) = steps.next().unwrap().unwrap();
        assert_eq!(txg, 12);
        assert!(matches!(contents, LogStep::Contents(c) if c.ino == 8 && c.bytes == [11; 100]));
        let (txg, record) = steps.next().unwrap().unwrap();
        assert_eq!(txg, 15);
        assert!(matches!(record, LogStep::Record(r) if r.ino == 13 && r.record == 14));
        assert!(steps.next().is_none());
    }

    #[test]
    fn an_entry_is_taken_for_no_other() {
        let payload = payload();
        assert!(steps_of(&payload, 1, 3).is_none());
        assert!(steps_of(&payload, 2, 2).is_none());
        assert!(steps_of(&payload[..PREAMBLE + 20], 1, 2).is_none());
    }

    #[test]
    fn cut_and_changed_bytes_never_panic() {
        let bytes = sample();
        for len in 0..bytes.len() {
            decode_all(&bytes[..len]);
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            decode_all(&bad);
        }
    }

    #[test]
    fn many_keys_become_several_steps() {
        let edits: Edits = (0..200u64)
            .map(|n| ([n.to_be_bytes(); 2].concat(), None))
            .collect();
        let mut out = Vec::new();
        put_edits(&mut out, 1, Counters::default(), &edits);
        let mut steps = Steps { bytes: &out };
        let mut keys = 0;
        while let Some(step) = steps.next() {
            let (_, LogStep::Edits(_, edits)) = step.unwrap() else {
                panic!()
            };
            assert!(edits.len() <= KEYS_MAX);
            keys += edits.len();
        }
        assert_eq!(keys, 200);
    }
}
