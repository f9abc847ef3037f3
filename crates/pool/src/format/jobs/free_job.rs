//! The space that destroyed datasets and snapshots have not freed yet, as it is stored in the pool.

use crate::format::codec::{Reader, Writer};
use crate::format::records::pointer::RecordPtr;

const MAGIC: u32 = u32::from_le_bytes(*b"REAP");

/// A job that frees an array, a list or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeJob {
    pub(crate) what: ToFree,
    /// The tree, or the array of chunks.
    pub(crate) root: RecordPtr,
    /// The first slot that is not done.
    pub(crate) cursor: u64,
}

/// The records that a job frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToFree {
    /// The part of a tree that was born after `min_birth`.
    Tree { min_birth: u64 },
    /// The chunks of a list of dead records, and these records.
    DeadRecords,
    /// The chunks of a list of dead records, but not the records: something has them still.
    ListOnly,
}

impl FreeJob {
    /// A job at its start, unless there is nothing to do.
    pub(crate) fn new(what: ToFree, root: RecordPtr) -> Option<FreeJob> {
        (!root.is_empty()).then_some(FreeJob {
            what,
            root,
            cursor: 0,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, min_birth) = match self.what {
            ToFree::Tree { min_birth } => (1, min_birth),
            ToFree::DeadRecords => (2, 0),
            ToFree::ListOnly => (3, 0),
        };
        let mut w = Writer::default();
        w.u32(MAGIC)
            .u32(kind)
            .u64(min_birth)
            .u64(self.cursor)
            .value(&self.root);
        w.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<FreeJob> {
        let mut r = Reader::new(bytes);
        if r.u32()? != MAGIC {
            return None;
        }
        let kind = r.u32()?;
        let min_birth = r.u64()?;
        Some(FreeJob {
            what: match kind {
                1 => ToFree::Tree { min_birth },
                2 => ToFree::DeadRecords,
                3 => ToFree::ListOnly,
                _ => return None,
            },
            cursor: r.u64()?,
            root: r.value()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_round_trip() {
        for what in [
            ToFree::Tree { min_birth: 7 },
            ToFree::DeadRecords,
            ToFree::ListOnly,
        ] {
            let job = FreeJob {
                what,
                root: RecordPtr::EMPTY,
                cursor: 9,
            };
            let bytes = job.encode();
            assert_eq!(FreeJob::decode(&bytes), Some(job));
            for len in 0..bytes.len() {
                assert_eq!(FreeJob::decode(&bytes[..len]), None);
            }
        }
    }
}
