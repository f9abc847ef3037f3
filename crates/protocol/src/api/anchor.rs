//! Anchors: what to keep outside of a pool to notice that it was put back to an earlier state.

use serde::{Deserialize, Serialize};

/// The state of a dataset at one moment. It is kept as a line of text (`daemon::anchor_line`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Whether the present seal was checked with the key. Without that check an attacker who can write
    /// to the devices could have forged the sequence.
    pub is_verified: bool,
}
