//! The reports of verifications: whether a pool holds snapshots, whole.

use serde::{Deserialize, Serialize};

/// A snapshot, and the outcome of reading all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedSnapshot {
    /// The name of the snapshot.
    pub name: String,
    /// The guid of the snapshot. Copies have the same.
    pub guid: u64,
    /// The time when it was made, in seconds since 1970.
    pub created: u64,
    /// True if its records are encrypted.
    pub encrypted: bool,
    /// The seal over its state, in hexadecimal digits; zeros if it is clear.
    pub seal: String,
    /// The data that the seal is made over, in hexadecimal digits (`pool::SealInput::to_report`).
    pub sealed: String,
    /// The records that were read: all, or those that the snapshot before it in this answer does not have.
    pub records: u64,
    /// The bytes of these records.
    pub bytes: u64,
    /// The encrypted records whose bytes only a key or a proof verifies: an older program wrote them.
    pub unchecked: u64,
    /// The parts that are damaged or cannot be read; at most the first hundred.
    pub lost: Vec<LostRecords>,
    /// The number of such parts.
    pub lost_count: u64,
    /// The hash of what was read, with the challenge as its key, in hexadecimal digits. `None` without a challenge, and if
    /// a part is lost.
    pub proof: Option<String>,
}

/// A part of a snapshot that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRecords {
    /// `pages`, the metadata, or `data`.
    pub array: String,
    /// The first slot.
    pub slot: u64,
    /// The number of slots.
    pub slots: u64,
    /// The reason.
    pub why: String,
}
