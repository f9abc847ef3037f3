//! The log of who did what, which is the history of a pool, and the check of its chain of hashes.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A record of the log. It is written in the same commit as the change that it is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// The pool.
    pub pool: String,
    /// The number of the record; null if an earlier version wrote it.
    pub sequence: Option<u64>,
    /// The hash of the record and all records before it, in hexadecimal digits.
    pub hash: Option<String>,
    /// Seconds since 1970.
    pub time: u64,
    /// The transaction group.
    pub txg: u64,
    /// The user, as `user on host`.
    pub who: String,
    /// The number of the user; null if it is no command of a user.
    pub uid: Option<u32>,
    /// The guid of the dataset or snapshot; null if the record is about several, or about the pool.
    pub object: Option<u64>,
    /// True for a part of a command, or for an action of the pool itself.
    pub internal: bool,
    /// The command line without secrets, or the event.
    pub command: String,
    /// `done`: of commands that changed nothing there is no record.
    pub result: String,
}

impl AuditRow {
    /// The anchor that the record is; `None` if an earlier version wrote it.
    pub fn anchor(&self) -> Option<AuditAnchor> {
        let (sequence, hash) = (self.sequence?, self.hash.clone()?);
        Some(AuditAnchor { sequence, hash })
    }
}

/// The number and the hash of a record. A log that has this record has all records before it, except those that were
/// dropped because of their age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditAnchor {
    /// The number of the record.
    pub sequence: u64,
    /// The hash, in hexadecimal digits.
    pub hash: String,
}

impl Display for AuditAnchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sequence, self.hash)
    }
}

impl FromStr for AuditAnchor {
    type Err = String;

    fn from_str(text: &str) -> Result<AuditAnchor, String> {
        let parsed = text.split_once(':').and_then(|(sequence, hash)| {
            let is_hash = hash.len() == 64 && hash.bytes().all(|c| c.is_ascii_hexdigit());
            let sequence = sequence.parse().ok().filter(|_| is_hash)?;
            let hash = hash.to_ascii_lowercase();
            Some(AuditAnchor { sequence, hash })
        });
        parsed.ok_or_else(|| {
            "an anchor is a number, a colon and 64 hexadecimal digits, as 'audit verify' prints it".into()
        })
    }
}

/// The finding about an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditFinding {
    /// The log has the record, and so all records before it that were not dropped.
    Proved,
    /// The record was dropped because of its age. Nothing is proved.
    Dropped,
    /// The log ends before the record: its end was cut off, or the pool was taken back.
    Cut,
    /// The log has another record with this number.
    Changed,
}

/// The check of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditReport {
    /// The pool.
    pub pool: String,
    /// The number of records with a hash.
    pub records: u64,
    /// The number of records without one, of an earlier version.
    pub unchained: u64,
    /// The number of records that were dropped because of their age.
    pub dropped: u64,
    /// The newest record; null if there is none with a hash.
    pub newest: Option<AuditAnchor>,
    /// The first contradiction in the log.
    pub fault: Option<String>,
    /// The finding about the given anchor, if there is no contradiction.
    pub finding: Option<AuditFinding>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_read_as_they_are_written() {
        let anchor = AuditAnchor {
            sequence: 41,
            hash: "0a".repeat(32),
        };
        assert_eq!(anchor.to_string().parse(), Ok(anchor.clone()));
        assert_eq!(anchor.to_string().to_uppercase().parse(), Ok(anchor));
        for bad in [
            "",
            "41",
            "41:",
            ":41",
            "41:0a",
            "-1:0a",
            &format!("x:{}", "0a".repeat(32)),
        ] {
            assert!(bad.parse::<AuditAnchor>().is_err(), "{bad}");
        }
        assert!(
            format!("1:{}", "é".repeat(32))
                .parse::<AuditAnchor>()
                .is_err()
        );
    }
}
