//! The progress of the removal of a group, and its encoding in the configuration.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the removal of a group does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum RemovalPhase {
    /// It copies.
    #[default]
    Running = 1,
    /// The group is gone.
    Finished = 2,
    /// It was stopped, and the group is in use as before.
    Stopped = 3,
    /// It is being stopped: copies are given up.
    Stopping = 4,
}

/// How far the removal of a group is, or how the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalStatus {
    /// What it does.
    pub phase: RemovalPhase,
    /// The group.
    pub group: u16,
    /// When it began, seconds since 1970.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// Bytes that were allocated in the group when it began, parity included.
    pub total: u64,
    /// How many of them have no copy yet.
    pub left: u64,
    /// The transaction group that copied something last.
    pub moved_till: u64,
    /// What people call the group: by its only device, or as `mirror-1`.
    pub name: String,
    /// Why it does not go on at the moment.
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
    /// Whether it runs, or is being stopped.
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
