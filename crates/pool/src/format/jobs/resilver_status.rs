//! The progress of a resilver, and its encoding in the configuration.

use std::collections::BTreeSet;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::format::jobs::scrub_status::{ScrubPhase, ScrubRecord, ScrubStatus};

/// The progress of a resilver, or the result of the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResilverStatus {
    /// Times, bytes and errors. `repaired` counts bytes of records that were copied; with parity the
    /// members got less than that.
    pub progress: ScrubStatus,
    /// The reason why the resilver does not continue at the moment.
    pub waits: Option<String>,
    /// The time of the next attempt, in seconds since 1970.
    pub(crate) waits_till: u64,
    /// The members that lack something of which no good copy was found. Not stored: a resilver with errors begins
    /// anew after an import.
    pub(crate) lacking: BTreeSet<u64>,
    pub(crate) position: ResilverPosition,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResilverPosition {
    pub(crate) stage: ResilverStage,
    /// The dataset.
    pub(crate) head: u64,
    /// Records of it and its snapshots that were born by then are done.
    pub(crate) done_txg: u64,
    /// The snapshot, or the dataset itself.
    pub(crate) entry: u64,
    pub(crate) array: u8,
    pub(crate) slot: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResilverStage {
    /// Labels and keys.
    #[default]
    Headers,
    Datasets,
}

/// A status as it is stored in the configuration record.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct ResilverRecord {
    progress: ScrubRecord,
    position: [U64; 6],
}

impl ResilverStatus {
    /// Returns whether one is under way.
    pub fn is_running(&self) -> bool {
        self.progress.phase == ScrubPhase::Running
    }

    /// The status at the start.
    pub(crate) fn running() -> ResilverStatus {
        let mut status = ResilverStatus::default();
        status.progress.phase = ScrubPhase::Running;
        status
    }

    /// Ends the resilver, because no device needs it any more.
    pub(crate) fn cancel(&mut self) {
        if self.is_running() {
            self.progress.phase = ScrubPhase::Stopped;
        }
    }

    pub(crate) fn to_record(&self) -> ResilverRecord {
        let at = &self.position;
        let position = [
            at.stage as u64,
            at.head,
            at.done_txg,
            at.entry,
            u64::from(at.array),
            at.slot,
        ];
        ResilverRecord {
            progress: self.progress.to_record(),
            position: position.map(U64::new),
        }
    }

    pub(crate) fn from_record(record: &ResilverRecord) -> Option<ResilverStatus> {
        let [stage, head, done_txg, entry, array, slot] = record.position.map(U64::get);
        let mut progress = ScrubStatus::from_record(&record.progress)?;
        // A resilver is not paused.
        if progress.phase == ScrubPhase::Paused {
            progress.phase = ScrubPhase::Stopped;
        }
        Some(ResilverStatus {
            progress,
            waits: None,
            waits_till: 0,
            lacking: BTreeSet::new(),
            position: ResilverPosition {
                stage: match stage {
                    0 => ResilverStage::Headers,
                    1 => ResilverStage::Datasets,
                    _ => return None,
                },
                head,
                done_txg,
                entry,
                array: u8::try_from(array).ok().filter(|array| *array < 2)?,
                slot,
            },
        })
    }
}
