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
    /// It grew from that state: the history of its seals proves it.
    Later,
    /// It is in a state from before.
    RolledBack,
    /// It did not grow from that state: its history has another seal in this place, or none.
    Forked,
    /// It is not what its key holder wrote.
    Replaced,
    /// Nothing proves how it relates to that state.
    Unknown,
    /// It is not there.
    Missing,
}

/// The reason why nothing is proved about a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnchorDoubt {
    /// Its key is not loaded.
    NoKey,
    /// It is not encrypted, so it has no seals.
    Clear,
    /// Its history begins after that state: an older program wrote it then, or seals were dropped.
    HistoryBeginsLater,
    /// A part of its history is damaged.
    HistoryDamaged,
}

impl AnchorDoubt {
    /// The reason, for people.
    pub fn text(self) -> &'static str {
        match self {
            AnchorDoubt::NoKey => "its key is not loaded",
            AnchorDoubt::Clear => "it is not encrypted",
            AnchorDoubt::HistoryBeginsLater => "its history begins after the anchor",
            AnchorDoubt::HistoryDamaged => "its history is damaged",
        }
    }
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
    /// Why nothing is proved, if the outcome is unknown.
    pub doubt: Option<AnchorDoubt>,
    /// What was changed without its key since its present seal: `keyring`, `snapshots`, or properties that protect people.
    pub unsealed: Vec<String>,
}
