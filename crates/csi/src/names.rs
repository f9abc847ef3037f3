//! Ids of volumes and snapshots. They come from outside, and become parts of names of datasets and directories.

use std::fmt;

use crate::status::{GrpcStatus, Result};

/// The longest name that the specification allows.
const LEN_MAX: usize = 128;
/// The prefix of snapshots that callers asked for; their name follows.
const SNAPSHOT: &str = "csi-";

/// The prefix of snapshots that were made for a clone; a hash of the name of the clone follows.
pub(crate) const MADE: &str = "clone-";
/// The prefix of deleted snapshots that clones keep; the guid follows.
pub(crate) const GONE: &str = "gone-";

/// Returns whether a snapshot of this name is hidden from callers. It is destroyed as soon as nothing keeps it.
pub(crate) fn is_unseen(snapshot: &str) -> bool {
    snapshot.starts_with(MADE) || snapshot.starts_with(GONE)
}

/// The id of a volume: the last part of the name of its dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VolumeId(String);

impl VolumeId {
    pub(crate) fn parse(text: &str) -> Result<VolumeId> {
        check(text).map(|()| VolumeId(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of its dataset.
    pub(crate) fn dataset(&self, parent: &str) -> String {
        format!("{parent}/{}", self.0)
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a snapshot: `VOLUME@NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SnapshotId {
    pub(crate) volume: VolumeId,
    pub(crate) name: String,
}

impl SnapshotId {
    pub(crate) fn new(volume: VolumeId, name: &str) -> Result<SnapshotId> {
        check(name)?;
        let name = name.to_owned();
        Ok(SnapshotId { volume, name })
    }

    pub(crate) fn parse(text: &str) -> Result<SnapshotId> {
        let (volume, name) = text.split_once('@').ok_or_else(|| {
            GrpcStatus::invalid(format!("'{}' is no id of a snapshot", shown(text)))
        })?;
        SnapshotId::new(VolumeId::parse(volume)?, name)
    }

    /// The id of what the daemon calls `VOLUME@csi-NAME`; `None` for snapshots of others.
    pub(crate) fn of_snapshot(volume: &VolumeId, snapshot: &str) -> Option<SnapshotId> {
        SnapshotId::new(volume.clone(), snapshot.strip_prefix(SNAPSHOT)?).ok()
    }

    /// The whole name of the snapshot in the pool.
    pub(crate) fn snapshot(&self, parent: &str) -> String {
        format!("{}@{SNAPSHOT}{}", self.volume.dataset(parent), self.name)
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.volume, self.name)
    }
}

/// Letters, digits and `-_.`, with a letter or digit first: it means nothing to a shell, a path or the daemon.
fn check(text: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_good = (1..=LEN_MAX).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(is_allowed);
    match is_good {
        true => Ok(()),
        false => Err(GrpcStatus::invalid(format!(
            "the name '{}' is not allowed: use up to {LEN_MAX} letters, digits and '-_.', a letter or digit first",
            shown(text)
        ))),
    }
}

/// The beginning of a text from outside, without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .take(LEN_MAX)
        .flat_map(char::escape_default)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_elsewhere_are_refused() {
        let long = "a".repeat(129);
        for wrong in [
            "", ".", "..", "-f", "a/b", "../a", "a@b", "a#b", "a b", "a\n", "a\0", "é", "%", &long,
        ] {
            assert!(VolumeId::parse(wrong).is_err(), "{wrong:?}");
            assert!(
                SnapshotId::parse(&format!("a@{wrong}")).is_err(),
                "{wrong:?}"
            );
        }
        assert!(VolumeId::parse(&long[1..]).is_ok());
        let id = SnapshotId::parse("pvc-1@snapshot-2").unwrap();
        assert_eq!(id.snapshot("tank/csi"), "tank/csi/pvc-1@csi-snapshot-2");
        let again = SnapshotId::of_snapshot(&id.volume, "csi-snapshot-2");
        assert_eq!(again.unwrap().to_string(), "pvc-1@snapshot-2");
        assert_eq!(SnapshotId::of_snapshot(&id.volume, "monday"), None);
        assert_eq!(shown("a\x1b\n"), r"a\u{1b}\n");
    }
}
