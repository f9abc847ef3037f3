//! Facts about a dataset outside of its records, as hashes under its seal: its keyring, its snapshots, and the
//! properties that protect people. The pool changes them without a key. The hashes show what was changed so.

use crate::format::datasets::entry::Entry;
use encoding::{hex, unhex_lower};

/// The hashes, in hexadecimal.
pub(crate) const FACTS: &str = "@sealed-facts";

/// The properties that protect people, as they are in effect.
pub const PROTECTIVE: [&str; 6] = [
    "mountpoint",
    "setuid",
    "exec",
    "keysource",
    "readonly",
    "sharenfs",
];

/// A BLAKE3 hash, cut to 128 bits.
type ShortHash = [u8; 16];

/// The facts of a dataset when it got its seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedFacts {
    /// The transaction group of the seal. The snapshots are those of earlier ones.
    pub(crate) txg: u64,
    /// The wrapped keys.
    pub(crate) keyring: ShortHash,
    /// The guid, name, transaction group and seal of each snapshot.
    pub(crate) snapshots: ShortHash,
    /// The values of [`PROTECTIVE`].
    pub(crate) properties: [ShortHash; PROTECTIVE.len()],
}

impl SealedFacts {
    const BYTES: usize = 8 + 16 * (2 + PROTECTIVE.len());

    pub(crate) fn encode(&self) -> String {
        let mut bytes = self.txg.to_le_bytes().to_vec();
        bytes.extend(self.keyring);
        bytes.extend(self.snapshots);
        bytes.extend(self.properties.as_flattened());
        hex(&bytes)
    }

    /// Reads the text; `None` if it is none.
    pub(crate) fn decode(text: &str) -> Option<SealedFacts> {
        let bytes = unhex_lower(text).filter(|bytes| bytes.len() == SealedFacts::BYTES)?;
        let (txg, hashes) = bytes.split_first_chunk()?;
        let (hashes, _) = hashes.as_chunks();
        let [keyring, snapshots, properties @ ..] = hashes else {
            return None;
        };
        Some(SealedFacts {
            txg: u64::from_le_bytes(*txg),
            keyring: *keyring,
            snapshots: *snapshots,
            properties: properties.try_into().ok()?,
        })
    }

    /// The names of the facts that differ from `now`: `keyring`, `snapshots`, and properties.
    pub(crate) fn changed(&self, now: &SealedFacts) -> Vec<&'static str> {
        let lists = [
            ("keyring", self.keyring == now.keyring),
            ("snapshots", self.snapshots == now.snapshots),
        ];
        let properties = self.properties.iter().zip(&now.properties);
        let properties = PROTECTIVE
            .into_iter()
            .zip(properties.map(|(sealed, now)| sealed == now));
        let all = lists.into_iter().chain(properties);
        all.filter(|(_, is_same)| !is_same)
            .map(|(name, _)| name)
            .collect()
    }
}

/// The hash of texts and numbers, each with its length.
pub(crate) fn short_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> ShortHash {
    let mut hasher = blake3::Hasher::new_derive_key("strongroom 2026-11 sealed facts v1");
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut hash = [0; 16];
    hasher.finalize_xof().fill(&mut hash);
    hash
}

impl Entry {
    /// The facts under its seal, if there are any.
    pub(crate) fn sealed_facts(&self) -> Option<SealedFacts> {
        SealedFacts::decode(self.facts_mark()?)
    }

    /// The text of [`Entry::sealed_facts`], which the seal covers.
    pub(crate) fn facts_mark(&self) -> Option<&String> {
        self.props.get(FACTS)
    }

    pub(crate) fn set_facts_mark(&mut self, mark: Option<&String>) {
        match mark {
            Some(mark) => self.props.insert(FACTS.into(), mark.clone()),
            None => self.props.remove(FACTS),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written() {
        let facts = SealedFacts {
            txg: 7,
            keyring: [1; 16],
            snapshots: [2; 16],
            properties: std::array::from_fn(|at| [at as u8 + 3; 16]),
        };
        let text = facts.encode();
        assert_eq!(SealedFacts::decode(&text), Some(facts));
        for len in 0..text.len() {
            assert_eq!(SealedFacts::decode(&text[..len]), None);
        }
        assert_eq!(SealedFacts::decode(&format!("{text}00")), None);
        let other = SealedFacts {
            snapshots: [0; 16],
            properties: [facts.properties[0]; 6],
            ..facts
        };
        let named = [&["snapshots"], &PROTECTIVE[1..]].concat();
        assert_eq!(facts.changed(&other), named);
        assert!(facts.changed(&facts).is_empty());
    }

    #[test]
    fn the_parts_of_a_hash_have_ends() {
        let hash = |parts: &[&[u8]]| short_hash(parts.iter().copied());
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"a"]), hash(&[b"a", b""]));
    }
}
