//! Anchors: what to keep outside of a pool to notice that it was put back to an earlier state.

use cipher::hash;
use serde::{Deserialize, Serialize};

/// The state of a dataset at one moment. It is a line of text for whoever keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The name of the dataset, for people.
    pub dataset: String,
    /// The guid of its pool.
    pub pool_guid: u64,
    /// The last transaction group of the pool.
    pub txg: u64,
    /// Its guid.
    pub guid: u64,
    /// Counts its states.
    pub sequence: u64,
    /// The seal over this one, in hexadecimal; zeros if the dataset is clear.
    pub seal: String,
}

const FIRST: &str = "strongroom-anchor-1";

impl Anchor {
    /// The anchor as a line. It ends with a checksum against typing errors, and the name.
    pub fn to_line(&self) -> String {
        let head = format!(
            "{FIRST} pool={:016x} txg={} dataset={:016x} sequence={} seal={}",
            self.pool_guid, self.txg, self.guid, self.sequence, self.seal
        );
        let check = check_of(&head);
        format!("{head} check={check} name={}", self.dataset)
    }

    /// Reads a line; `None` if it is no anchor, or was mistyped.
    pub fn from_line(line: &str) -> Option<Anchor> {
        let (head, rest) = line.trim().split_once(" check=")?;
        let (check, name) = rest.split_once(" name=")?;
        let mut words = head.split(' ');
        if words.next() != Some(FIRST) || check != check_of(head) {
            return None;
        }
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let guid = |text: &str| u64::from_str_radix(text, 16).ok();
        let anchor = Anchor {
            dataset: name.to_owned(),
            pool_guid: guid(field("pool")?)?,
            txg: field("txg")?.parse().ok()?,
            guid: guid(field("dataset")?)?,
            sequence: field("sequence")?.parse().ok()?,
            seal: field("seal")?.to_owned(),
        };
        let is_seal = anchor.seal.len() == 64 && anchor.seal.bytes().all(|b| b.is_ascii_hexdigit());
        is_seal.then_some(anchor)
    }
}

fn check_of(head: &str) -> String {
    let sum = hash(head.as_bytes());
    sum[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What became of an anchored dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnchorOutcome {
    /// It is in the same state.
    Same,
    /// It has been written to since.
    Later,
    /// It is in a state from before.
    RolledBack,
    /// It is not what its key holder wrote.
    Replaced,
    /// It is not there.
    Missing,
}

/// An anchor beside the present.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnchorRow {
    /// Its name now, or then if it is gone.
    pub dataset: String,
    /// Its guid.
    pub guid: u64,
    /// The sequence in the anchor.
    pub anchored: u64,
    /// The sequence now.
    pub now: Option<u64>,
    /// What became of it.
    pub outcome: AnchorOutcome,
    /// Whether the present seal was checked with the key. Without that someone who can write to the
    /// devices could have made up the sequence.
    pub is_verified: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip_and_mistyped_ones_are_refused() {
        let anchor = Anchor {
            dataset: "tank/home of ann".into(),
            pool_guid: 0x123,
            txg: 45,
            guid: u64::MAX,
            sequence: 6,
            seal: "0a".repeat(32),
        };
        let line = anchor.to_line();
        assert_eq!(Anchor::from_line(&line), Some(anchor));
        assert_eq!(Anchor::from_line("strongroom-anchor-1"), None);
        let up_to_name = line.find(" name=").unwrap();
        for at in 0..up_to_name {
            let mut typed = line.clone().into_bytes();
            typed[at] ^= 1;
            let typed = String::from_utf8(typed).unwrap();
            assert_eq!(Anchor::from_line(&typed), None, "{typed}");
        }
    }
}
