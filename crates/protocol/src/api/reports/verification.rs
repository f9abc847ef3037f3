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
    /// The target has proved every record, and the copy has the state of its source.
    Whole,
    /// The source has destroyed the snapshot. The host says that the copy is whole, and nobody can compare it.
    Claimed,
    /// Records are damaged or cannot be read, or the target does not have those of the source.
    Damaged,
    /// The copy without a fault whose records are not proved: it shares some with an earlier snapshot that is not.
    Unproved,
    /// The source cannot read its own records, so it cannot compare those of the copy.
    SourceDamaged,
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
            CopyCondition::Claimed => "claimed",
            CopyCondition::Damaged => "damaged",
            CopyCondition::Unproved => "unproved",
            CopyCondition::SourceDamaged => "source-damaged",
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
    /// The dataset was never written, so nobody has made a seal.
    Unsealed,
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
            SealFinding::Unsealed => "unsealed",
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
    /// True if the target has proved that it has all records of the snapshot, by hashes that it could not know before.
    pub proved: bool,
    /// The finding about the seal.
    pub seal: SealFinding,
    /// The records that the target has read.
    pub records: u64,
    /// The bytes of these records.
    pub bytes: u64,
    /// The lost parts; at most the first hundred.
    pub lost: Vec<LostRecords>,
    /// The state that the copy has, as an anchor of the source. `None` if neither its source nor a key confirms it.
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

impl CopyRow {
    /// True if the copy is not whole, or if its seal is wrong.
    fn fails(&self) -> bool {
        let is_good = matches!(self.state, CopyCondition::Whole | CopyCondition::Claimed);
        !is_good || self.seal == SealFinding::Wrong
    }

    fn is_only_unproved(&self) -> bool {
        let is_unproved = matches!(
            self.state,
            CopyCondition::Unproved | CopyCondition::SourceDamaged
        );
        is_unproved && self.seal != SealFinding::Wrong
    }
}

impl CopyReport {
    /// The first copy that fails the verification. One that is wrong comes before one that is only not proved.
    pub fn worst(&self) -> Option<&CopyRow> {
        let mut copies = self.copies.iter();
        copies
            .clone()
            .find(|row| row.fails() && !row.is_only_unproved())
            .or_else(|| copies.find(|row| row.fails()))
    }

    /// True if a copy was compared with its source, or fails. A report without a finding says nothing of the copies.
    pub fn has_finding(&self) -> bool {
        let mut copies = self.copies.iter();
        copies.any(|row| row.fails() || row.state == CopyCondition::Whole)
    }

    /// The reason why the verification failed, in one line. `None` if no copy fails.
    pub fn failure(&self) -> Option<String> {
        let worst = self.worst()?;
        if let (CopyCondition::SourceDamaged, Some(source)) = (worst.state, &worst.source) {
            return Some(format!(
                "{source}: {}",
                worst.why.as_deref().unwrap_or("it is damaged")
            ));
        }
        let (copy, state) = (&worst.copy, worst.state.word());
        Some(match (&worst.why, worst.seal) {
            (None, SealFinding::Wrong) => {
                format!("the copy {copy} has a wrong seal: no key of the source made it")
            }
            (why, _) => {
                let why = why.as_deref().unwrap_or("no reason is known");
                format!("the copy {copy} is {state}: {why}")
            }
        })
    }
}
