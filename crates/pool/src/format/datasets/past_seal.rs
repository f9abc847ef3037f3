//! Seals that a dataset had before its present one. Its sealed metadata keeps them all. A seal that is made without
//! writing metadata leaves the one before in the entry, until the next commit of the key holder takes it from there.

use crate::format::datasets::entry::Entry;
use encoding::{hex, unhex_lower};

/// The seals that wait in the entry, oldest first, in hexadecimal.
pub(crate) const PAST: &str = "@past-seals";
/// The largest number of seals that wait.
const WAITING_MAX: usize = 64;

/// A seal that a dataset had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastSeal {
    /// The sequence of the state. 0 in the list of an entry: older seals were dropped here.
    pub sequence: u64,
    /// The first half of the seal.
    pub seal: [u8; 16],
}

impl PastSeal {
    /// The bytes of one.
    pub const BYTES: usize = 24;
    const DROPPED: PastSeal = PastSeal {
        sequence: 0,
        seal: [0; 16],
    };

    /// The part of a seal that is kept.
    pub fn new(sequence: u64, seal: &[u8; 32]) -> PastSeal {
        let (half, _) = seal.split_first_chunk().expect("a seal is longer");
        PastSeal {
            sequence,
            seal: *half,
        }
    }

    /// Returns whether older seals are missing before this one.
    pub fn is_gap(&self) -> bool {
        self.sequence == 0
    }

    /// The bytes that are stored.
    pub fn to_bytes(&self) -> [u8; PastSeal::BYTES] {
        let mut bytes = [0; PastSeal::BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seal);
        bytes
    }

    /// Reads the bytes that are stored.
    pub fn from_bytes(bytes: &[u8; PastSeal::BYTES]) -> PastSeal {
        let (sequence, seal) = bytes.split_first_chunk().expect("of this length");
        PastSeal {
            sequence: u64::from_le_bytes(*sequence),
            seal: seal.try_into().expect("of this length"),
        }
    }

    fn of(entry: &Entry) -> Option<PastSeal> {
        let is_sealed = entry.suite != 0 && entry.sequence != 0 && entry.seal != [0; 32];
        is_sealed.then(|| PastSeal::new(entry.sequence, &entry.seal))
    }
}

fn encode(seals: &[PastSeal]) -> String {
    let bytes: Vec<u8> = seals.iter().flat_map(PastSeal::to_bytes).collect();
    hex(&bytes)
}

/// Reads a list of seals; `None` if the text is none.
pub(crate) fn decode(text: &str) -> Option<Vec<PastSeal>> {
    let bytes = unhex_lower(text)?;
    let (seals, rest) = bytes.as_chunks::<{ PastSeal::BYTES }>();
    let is_list = rest.is_empty() && seals.len() <= WAITING_MAX;
    is_list.then(|| seals.iter().map(PastSeal::from_bytes).collect())
}

impl Entry {
    /// The seals before the present one that its metadata does not have, oldest first.
    pub fn waiting_seals(&self) -> Vec<PastSeal> {
        let text = self.props.get(PAST);
        text.and_then(|text| decode(text)).unwrap_or_default()
    }

    /// The text of [`Entry::waiting_seals`], which the seal covers.
    pub(crate) fn waiting_mark(&self) -> Option<&String> {
        self.props.get(PAST)
    }

    pub(crate) fn set_waiting_mark(&mut self, mark: Option<&String>) {
        match mark {
            Some(mark) => self.props.insert(PAST.into(), mark.clone()),
            None => self.props.remove(PAST),
        };
    }

    /// The seals that the metadata of the next state has to get: those that wait, and the present one.
    pub(crate) fn seals_to_keep(&self) -> Vec<PastSeal> {
        let mut seals = self.waiting_seals();
        seals.extend(PastSeal::of(self));
        seals
    }

    /// Lets the seal of `before` wait, because this state has the same metadata and another seal.
    pub(crate) fn let_seal_wait(&mut self, before: &Entry) {
        let mut seals = before.seals_to_keep();
        if seals.len() > WAITING_MAX {
            let dropped = seals.len() - WAITING_MAX + 1;
            seals.splice(..dropped, [PastSeal::DROPPED]);
        }
        let mark = (!seals.is_empty()).then(|| encode(&seals));
        self.set_waiting_mark(mark.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::datasets::entry::tests::sample;

    #[test]
    fn seals_wait_in_order_and_a_gap_is_marked() {
        let mut entry = sample();
        let first = entry.sequence;
        for _ in 0..WAITING_MAX {
            let before = entry.clone();
            entry.sequence += 1;
            entry.let_seal_wait(&before);
        }
        let seals = entry.waiting_seals();
        assert_eq!(seals.len(), WAITING_MAX);
        assert_eq!(seals[0], PastSeal::new(first, &entry.seal));
        for _ in 0..3 {
            let before = entry.clone();
            entry.sequence += 1;
            entry.let_seal_wait(&before);
        }
        let seals = entry.waiting_seals();
        assert_eq!(seals.len(), WAITING_MAX);
        assert!(seals[0].is_gap());
        assert_eq!(seals[1].sequence, first + 4);
        assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    }

    #[test]
    fn other_texts_are_no_lists() {
        for text in ["0", "zz", &"0".repeat(47), &"00".repeat(24 * 65), "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode(&"00".repeat(24)), Some(vec![PastSeal::DROPPED]));
    }
}
