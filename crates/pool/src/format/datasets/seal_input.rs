//! The input of the seal of a dataset.

use zerocopy::IntoBytes;

use crate::format::datasets::entry::Entry;
use crate::format::datasets::volume_shape::VolumeShape;
use crate::format::logs::log_state::{State, state_of};
use crate::format::records::pointer::RecordIdentity;

/// The data that a seal is made over.
#[derive(Clone, Copy, Debug)]
pub struct SealInput {
    /// The dataset's guid.
    pub guid: u64,
    /// Counts the seals of the dataset.
    pub sequence: u64,
    /// The identities of the roots of both arrays.
    pub roots: [RecordIdentity; 2],
    /// The beginning of the log: chain, sequence and base of [`LogHead`](crate::LogHead); zeros if it has none.
    pub log: [u64; 3],
    /// The names of the present state and of the one before in its log; zeros if it has none.
    pub log_states: [[u8; 16]; 2],
    /// The size of a volume and of its blocks, in bytes; zeros of files.
    pub volume: [u64; 2],
    /// The hash of the list of earlier seals that the metadata does not have, if there are any.
    pub waiting: Option<[u8; 32]>,
    /// The hash of the text of the facts outside of its records, if there are any.
    pub facts: Option<[u8; 32]>,
}

fn hash(mark: &String) -> [u8; 32] {
    blake3::hash(mark.as_bytes()).into()
}

impl SealInput {
    /// Returns the data that the seal of an entry is made over. `guid` is the dataset's, also of a snapshot; what was
    /// received has a seal over another one.
    pub fn of(entry: &Entry, guid: u64) -> SealInput {
        SealInput {
            guid: entry.sealed_guid(guid),
            sequence: entry.sequence,
            roots: entry.roots.map(|root| root.identity),
            log: [entry.log.chain, entry.log.sequence, entry.log.base],
            log_states: [entry.log.state, entry.log.before],
            volume: VolumeShape::numbers(entry.volume()),
            waiting: entry.waiting_mark().map(hash),
            facts: entry.facts_mark().map(hash),
        }
    }

    /// The name of this state for entries of its log.
    pub(crate) fn state(&self) -> State {
        let [_, before] = self.log_states;
        let mut hasher = blake3::Hasher::new_derive_key("strongroom 2026-11 log state v1");
        hasher.update([self.guid, self.sequence].map(u64::to_le_bytes).as_bytes());
        hasher.update(self.roots.as_bytes());
        hasher.update(self.log.map(u64::to_le_bytes).as_bytes());
        hasher.update(&before);
        hasher.update(self.volume.map(u64::to_le_bytes).as_bytes());
        state_of(&hasher)
    }
}
