//! Anchors: what to keep outside of a pool to notice that it was put back to an earlier state.

use serde::{Deserialize, Serialize};

/// The state of a dataset at one moment. It is kept as a line of text (`daemon::anchor_line`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetAnchor {
    /// The name of the dataset, for people.
    pub dataset: String,
    /// The guid of its pool.
    pub pool_guid: u64,
    /// The last transaction group of the pool.
    pub txg: u64,
    /// The guid of the dataset.
    pub guid: u64,
    /// Counts its states.
    pub sequence: u64,
    /// The seal over this one, in hexadecimal; zeros if the dataset is clear.
    pub seal: String,
}

/// The relation of a dataset to its anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnchorOutcome {
    /// The dataset is in the same state.
    Same,
    /// The dataset grew from that state. The history of its seals proves it.
    Later,
    /// The dataset is in an earlier state.
    RolledBack,
    /// The dataset did not grow from that state. Its history has another seal in this place, or none.
    Forked,
    /// The dataset is not the one that its key holder wrote.
    Replaced,
    /// The relation to that state is not proved.
    Unknown,
    /// The dataset is missing.
    Missing,
}

/// The reason why nothing is proved about a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnchorDoubt {
    /// The key is not loaded.
    NoKey,
    /// The dataset is not encrypted, so it has no seals.
    Clear,
    /// The history begins after that state. An older program wrote it then, or seals were dropped.
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
    /// The present name of the dataset, or its name in the anchor if it is missing.
    pub dataset: String,
    /// The guid of the dataset.
    pub guid: u64,
    /// The sequence in the anchor.
    pub anchored: u64,
    /// The sequence now.
    pub now: Option<u64>,
    /// The relation of the dataset to its anchor.
    pub outcome: AnchorOutcome,
    /// The reason for which nothing is proved, if the outcome is unknown.
    pub doubt: Option<AnchorDoubt>,
    /// The parts that were changed without the key since the present seal: `keyring`, `snapshots`, or properties that
    /// protect people.
    pub unsealed: Vec<String>,
}
