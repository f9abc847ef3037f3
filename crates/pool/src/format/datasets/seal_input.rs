//! The input of the seal of a dataset.

use zerocopy::{FromBytes, IntoBytes};

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

    /// The bytes of this data for the report of a verification. No pool stores them.
    pub fn to_report(&self) -> Vec<u8> {
        let numbers = |numbers: &[u64]| -> Vec<u8> {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
            bytes.collect()
        };
        let hash = |hash: Option<[u8; 32]>| -> Vec<u8> {
            let is_there = [u8::from(hash.is_some())];
            [&is_there[..], &hash.unwrap_or_default()].concat()
        };
        [
            numbers(&[self.guid, self.sequence]),
            self.roots.as_bytes().to_vec(),
            numbers(&self.log),
            self.log_states.concat(),
            numbers(&self.volume),
            hash(self.waiting),
            hash(self.facts),
        ]
        .concat()
    }

    /// Reads what [`SealInput::to_report`] wrote. `None` if these are no such bytes.
    pub fn from_report(mut bytes: &[u8]) -> Option<SealInput> {
        fn number(bytes: &mut &[u8]) -> Option<u64> {
            take(bytes).map(u64::from_le_bytes)
        }
        fn hash(bytes: &mut &[u8]) -> Option<Option<[u8; 32]>> {
            let [is_there] = take(bytes)?;
            let hash = take(bytes)?;
            match is_there {
                0 => (hash == [0; 32]).then_some(None),
                1 => Some(Some(hash)),
                _ => None,
            }
        }
        let rest = &mut bytes;
        let input = SealInput {
            guid: number(rest)?,
            sequence: number(rest)?,
            roots: [identity(rest)?, identity(rest)?],
            log: [number(rest)?, number(rest)?, number(rest)?],
            log_states: [take(rest)?, take(rest)?],
            volume: [number(rest)?, number(rest)?],
            waiting: hash(rest)?,
            facts: hash(rest)?,
        };
        rest.is_empty().then_some(input)
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

/// Takes the first bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn identity(bytes: &mut &[u8]) -> Option<RecordIdentity> {
    let bytes: [u8; size_of::<RecordIdentity>()] = take(bytes)?;
    RecordIdentity::read_from_bytes(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written_and_nothing_else_is() {
        let input = SealInput {
            guid: 1,
            sequence: 2,
            roots: [3, 4].map(|byte| RecordIdentity::node(1, &[byte; 32])),
            log: [5, 6, 7],
            log_states: [[8; 16], [9; 16]],
            volume: [10, 11],
            waiting: None,
            facts: Some([12; 32]),
        };
        let bytes = input.to_report();
        let read = SealInput::from_report(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{input:?}"));
        assert!(SealInput::from_report(&bytes[1..]).is_none());
        assert!(SealInput::from_report(&[&bytes[..], &[0]].concat()).is_none());
        let mut wrong = bytes.clone();
        let flag = bytes.len() - 33;
        wrong[flag] = 2;
        assert!(SealInput::from_report(&wrong).is_none());
        // A hash that is not there has one form.
        wrong[flag] = 0;
        assert!(SealInput::from_report(&wrong).is_none());
    }
}
