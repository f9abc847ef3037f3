//! The reports of verifications: whether a pool holds snapshots, whole.

use serde::{Deserialize, Serialize};

use super::anchor::DatasetAnchor;

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

/// The state of a copy beside its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyCondition {
    /// Every record is there, and the copy has the state of its source.
    Whole,
    /// Records are damaged, cannot be read, or are not proved.
    Damaged,
    /// The copy has an older state than its source, or lacks a snapshot that it had.
    Older,
    /// The parts of the copy are of several states.
    Mixed,
    /// The copy has a state that its source never had.
    Replaced,
    /// The copy is not there.
    Missing,
}

impl CopyCondition {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            CopyCondition::Whole => "whole",
            CopyCondition::Damaged => "damaged",
            CopyCondition::Older => "older",
            CopyCondition::Mixed => "mixed",
            CopyCondition::Replaced => "replaced",
            CopyCondition::Missing => "missing",
        }
    }
}

/// The finding about the seal of a copy, with the keys of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SealFinding {
    /// A holder of the key made it.
    Right,
    /// No generation of the keys made it.
    Wrong,
    /// The key is not loaded here.
    NoKey,
    /// The dataset is not encrypted.
    Clear,
}

impl SealFinding {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            SealFinding::Right => "right",
            SealFinding::Wrong => "wrong",
            SealFinding::NoKey => "no-key",
            SealFinding::Clear => "clear",
        }
    }
}

/// A snapshot of a copy, beside its source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CopyRow {
    /// The snapshot at the source. `None` if the source has destroyed it.
    pub source: Option<String>,
    /// The copy, by its name at the target.
    pub copy: String,
    /// The guid of the snapshot.
    pub guid: u64,
    /// The time when it was made, in seconds since 1970.
    pub created: Option<u64>,
    /// The state of the copy.
    pub state: CopyCondition,
    /// The reason.
    pub why: Option<String>,
    /// True if the target has proved that it has the records, by a hash that it could not know before.
    pub proved: bool,
    /// The finding about the seal.
    pub seal: SealFinding,
    /// The records that the target has read.
    pub records: u64,
    /// The bytes of these records.
    pub bytes: u64,
    /// The lost parts; at most the first hundred.
    pub lost: Vec<LostRecords>,
    /// The state that the copy has, as an anchor of the source. `None` if it is not encrypted, or not known.
    pub anchor: Option<DatasetAnchor>,
}

/// The verification of the copies of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CopyReport {
    /// The name of the job.
    pub job: String,
    /// The dataset that is copied.
    pub source: String,
    /// The place of the copy.
    pub target: String,
    /// The begin of the verification, in seconds since 1970.
    pub begun: u64,
    /// The end of it, in seconds since 1970.
    pub ended: u64,
    /// The copies, oldest first for each dataset.
    pub copies: Vec<CopyRow>,
}

impl CopyReport {
    /// The first copy that is not whole, or whose seal is wrong.
    pub fn worst(&self) -> Option<&CopyRow> {
        let mut copies = self.copies.iter();
        copies.find(|row| row.state != CopyCondition::Whole || row.seal == SealFinding::Wrong)
    }

    /// The reason why the verification failed, in one line. `None` if all copies are whole.
    pub fn failure(&self) -> Option<String> {
        let worst = self.worst()?;
        let why = match (&worst.why, worst.seal) {
            (Some(why), _) => why.clone(),
            (None, SealFinding::Wrong) => "no key of the source made its seal".into(),
            (None, _) => format!("it is {}", worst.state.word()),
        };
        Some(format!(
            "the copy {} is {}: {why}",
            worst.copy,
            worst.state.word()
        ))
    }
}
