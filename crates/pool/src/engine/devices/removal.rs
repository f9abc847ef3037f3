//! The part of a running removal that is in memory only. The configuration has the rest.

use crate::format::jobs::scrub_status::ScrubStatus;
use crate::storage::space::SpaceReservation;

/// A running removal of a group.
pub(crate) struct Removal {
    /// Space for the data that is not copied yet.
    pub(crate) reserved: SpaceReservation,
    /// The position of the walk through all records.
    pub(crate) walk: ScrubStatus,
    /// The units that were not copied when the walk began.
    pub(crate) left_before: u64,
    /// True if the walk has reached the end.
    pub(crate) has_walked: bool,
    /// True if the remap table is outside of the group.
    pub(crate) is_table_out: bool,
    /// The reason why the removal waits, and the time of the next try.
    pub(crate) waits: Option<(String, u64)>,
}

impl Removal {
    pub(crate) fn new(reserved: SpaceReservation) -> Removal {
        Removal {
            reserved,
            walk: ScrubStatus::default(),
            left_before: u64::MAX,
            has_walked: false,
            is_table_out: false,
            waits: None,
        }
    }

    /// Starts the walk again.
    pub(crate) fn restart_walk(&mut self) {
        self.walk = ScrubStatus::default();
        self.has_walked = false;
    }
}
