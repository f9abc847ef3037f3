//! The input of the seal of a dataset.

use crate::format::entry::Entry;
use crate::format::pointer::Identity;
use crate::format::volume_shape::VolumeShape;

/// What a seal is made over.
#[derive(Clone, Copy, Debug)]
pub struct SealInput {
    /// The dataset's guid.
    pub guid: u64,
    /// Counts the seals of the dataset.
    pub sequence: u64,
    /// The identities of the roots of both arrays.
    pub roots: [Identity; 2],
    /// Where its log begins: chain, sequence and base of [`LogHead`](crate::LogHead); zeros if it has
    /// none.
    pub log: [u64; 3],
    /// The size of a volume and of its blocks, in bytes; zeros of files.
    pub volume: [u64; 2],
}

impl SealInput {
    /// What the seal of an entry is made over. `guid` is the dataset's, also of a snapshot; what was
    /// received has a seal over another one.
    pub fn of(entry: &Entry, guid: u64) -> SealInput {
        SealInput {
            guid: entry.sealed_guid(guid),
            sequence: entry.sequence,
            roots: entry.roots.map(|root| root.identity),
            log: [entry.log.chain, entry.log.sequence, entry.log.base],
            volume: VolumeShape::numbers(entry.volume()),
        }
    }
}
