//! The progress of a scrub, and its encoding in the configuration.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::format::records::array_kind::ArrayKind;

/// The phase of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubPhase {
    /// None has run yet.
    #[default]
    None,
    /// A scrub is under way.
    Running,
    /// The last one reached the end.
    Finished,
    /// The last one was stopped, and does not continue.
    Stopped,
    /// The last one is paused, and can continue from its position.
    Paused,
}

impl ScrubPhase {
    /// Returns the stored number of the phase. One that was stopped has no position, and one that was paused has one,
    /// or no end: older programs know one of both.
    fn number(self) -> u32 {
        match self {
            ScrubPhase::None => 0,
            ScrubPhase::Running => 1,
            ScrubPhase::Finished => 2,
            ScrubPhase::Stopped | ScrubPhase::Paused => 3,
        }
    }
}

/// The progress of a scrub, or the result of the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// The phase of the scrub.
    pub phase: ScrubPhase,
    /// The time when the scrub began, in seconds since 1970.
    pub started: u64,
    /// The time when the scrub ended, was stopped or was paused. 0 for one that was paused before it read anything.
    pub ended: u64,
    /// Bytes read.
    pub examined: u64,
    /// Bytes that were allocated when it began.
    pub total: u64,
    /// Copies rewritten from a whole one.
    pub repaired: u64,
    /// Records and nodes of which no good copy was found.
    pub errors: u64,
    /// The number of these records with a copy that a device failed to read. That copy may be good.
    pub unreadable: u64,
    /// The first of the errors, since the pool was imported.
    pub damage: Vec<Damage>,
    pub(crate) position: ScrubPosition,
    /// The position in a sublist of the checkpoint. Not stored: after an import it begins the sublist again.
    pub(crate) within: u64,
}

/// A record or node of which no good copy was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The dataset or snapshot; 0 for the pool's own records.
    pub dataset: u64,
    /// The array with the damage.
    pub array: Option<ArrayKind>,
    /// The first slot that is lost.
    pub slot: u64,
    /// The level of the damaged record (0) or node.
    pub level: u8,
    /// True if a device failed to read a copy, which may be good.
    pub is_unreadable: bool,
    /// The name that the dataset had at the time of the checkpoint, if only the checkpoint has the damaged data. Empty
    /// for the checkpoint's own records.
    pub in_checkpoint: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScrubPosition {
    pub(crate) dataset: u64,
    pub(crate) array: u8,
    pub(crate) slot: u64,
}

/// A status as it is stored in the configuration record.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct ScrubRecord {
    phase: U32,
    array: U32,
    numbers: [U64; 8],
}

impl ScrubStatus {
    pub(crate) fn to_record(&self) -> ScrubRecord {
        let numbers = [
            self.started,
            self.ended,
            self.examined,
            self.total,
            self.repaired,
            self.errors,
            self.position.dataset,
            self.position.slot,
        ];
        ScrubRecord {
            phase: self.phase.number().into(),
            array: u32::from(self.position.array).into(),
            numbers: numbers.map(U64::new),
        }
    }

    pub(crate) fn from_record(record: &ScrubRecord) -> Option<ScrubStatus> {
        let [
            started,
            ended,
            examined,
            total,
            repaired,
            errors,
            dataset,
            slot,
        ] = record.numbers.map(U64::get);
        Some(ScrubStatus {
            phase: match record.phase.get() {
                0 => ScrubPhase::None,
                1 => ScrubPhase::Running,
                2 => ScrubPhase::Finished,
                3 if ended == 0 || dataset != 0 => ScrubPhase::Paused,
                3 => ScrubPhase::Stopped,
                _ => return None,
            },
            started,
            ended,
            examined,
            total,
            repaired,
            errors,
            unreadable: 0,
            damage: Vec::new(),
            position: ScrubPosition {
                dataset,
                array: u8::try_from(record.array.get())
                    .ok()
                    .filter(|array| *array < 2)?,
                slot,
            },
            within: 0,
        })
    }
}
