//! The space that destroyed datasets and snapshots have not freed yet, as it is stored in the pool.

use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::records::pointer::RecordPtr;

const MAGIC: u32 = u32::from_le_bytes(*b"REAP");

/// A job that frees an array, a list or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeJob {
    pub(crate) what: FreeTarget,
    /// The tree, or the array of chunks.
    pub(crate) root: RecordPtr,
    /// The first slot that is not done.
    pub(crate) cursor: u64,
}

/// The records that a job frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeTarget {
    /// The part of a tree that was born after `min_birth`.
    Tree { min_birth: u64 },
    /// The chunks of a list of dead records, and these records.
    DeadRecords,
    /// The chunks of a list of dead records, but not the records: something has them still.
    ListOnly,
}

impl FreeJob {
    /// A job at its start, unless there is nothing to do.
    pub(crate) fn new(what: FreeTarget, root: RecordPtr) -> Option<FreeJob> {
        (!root.is_empty()).then_some(FreeJob {
            what,
            root,
            cursor: 0,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, min_birth) = match self.what {
            FreeTarget::Tree { min_birth } => (1, min_birth),
            FreeTarget::DeadRecords => (2, 0),
            FreeTarget::ListOnly => (3, 0),
        };
        let mut w = ValueWriter::default();
        w.u32(MAGIC)
            .u32(kind)
            .u64(min_birth)
            .u64(self.cursor)
            .value(&self.root);
        w.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<FreeJob> {
        let mut r = ValueReader::new(bytes);
        if r.u32()? != MAGIC {
            return None;
        }
        let kind = r.u32()?;
        let min_birth = r.u64()?;
        Some(FreeJob {
            what: match kind {
                1 => FreeTarget::Tree { min_birth },
                2 => FreeTarget::DeadRecords,
                3 => FreeTarget::ListOnly,
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
            FreeTarget::Tree { min_birth: 7 },
            FreeTarget::DeadRecords,
            FreeTarget::ListOnly,
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
