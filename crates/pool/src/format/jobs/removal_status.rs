//! The progress of the removal of a group, and its encoding in the configuration.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The phase of the removal of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum RemovalPhase {
    /// The removal copies records.
    #[default]
    Running = 1,
    /// The group is gone.
    Finished = 2,
    /// The removal was stopped, and the group is in use as before.
    Stopped = 3,
    /// The removal is being stopped: copies are given up.
    Stopping = 4,
}

/// The progress of the removal of a group, or the result of the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalStatus {
    /// The phase of the removal.
    pub phase: RemovalPhase,
    /// The group.
    pub group: u16,
    /// The time when the removal began, in seconds since 1970.
    pub started: u64,
    /// The time when the removal ended.
    pub ended: u64,
    /// Bytes that were allocated in the group when it began, parity included.
    pub total: u64,
    /// The part of these bytes that has no copy yet.
    pub left: u64,
    /// The transaction group that copied something last.
    pub moved_till: u64,
    /// The name of the group for people: its only device, or a name as `mirror-1`.
    pub name: String,
    /// The reason why the removal does not go on at the moment.
    pub waits: Option<String>,
}

/// A status as it lies in the configuration record.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct RemovalRecord {
    phase: U32,
    group: U32,
    numbers: [U64; 4],
}

impl RemovalStatus {
    /// Returns whether it runs, or is being stopped.
    pub fn is_under_way(&self) -> bool {
        matches!(self.phase, RemovalPhase::Running | RemovalPhase::Stopping)
    }

    pub(crate) fn to_record(&self) -> RemovalRecord {
        let numbers = [self.started, self.ended, self.total, self.moved_till];
        RemovalRecord {
            phase: (self.phase as u32).into(),
            group: u32::from(self.group).into(),
            numbers: numbers.map(U64::new),
        }
    }

    pub(crate) fn from_record(record: &RemovalRecord) -> Option<RemovalStatus> {
        let [started, ended, total, moved_till] = record.numbers.map(U64::get);
        Some(RemovalStatus {
            phase: match record.phase.get() {
                1 => RemovalPhase::Running,
                2 => RemovalPhase::Finished,
                3 => RemovalPhase::Stopped,
                4 => RemovalPhase::Stopping,
                _ => return None,
            },
            group: u16::try_from(record.group.get()).ok()?,
            started,
            ended,
            total,
            moved_till,
            ..RemovalStatus::default()
        })
    }
}
