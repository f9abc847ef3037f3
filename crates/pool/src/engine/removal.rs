//! The state of a running removal of a group that is in memory only.

use crate::format::scrub_status::ScrubStatus;
use crate::storage::space::Reservation;

/// A removal under way, as far as it is not in the configuration.
pub(crate) struct Removal {
    /// For what is not copied yet.
    pub(crate) reserved: Reservation,
    /// Where the walk is.
    pub(crate) walk: ScrubStatus,
    /// What was not copied when the walk began.
    pub(crate) left_before: u64,
    /// The walk has come to the end.
    pub(crate) has_walked: bool,
    /// The remap table does not lie in the group.
    pub(crate) is_table_out: bool,
    /// Why it does not go on, and when it is to be tried again.
    pub(crate) waits: Option<(String, u64)>,
}

impl Removal {
    pub(crate) fn new(reserved: Reservation) -> Removal {
        Removal {
            reserved,
            walk: ScrubStatus::default(),
            left_before: u64::MAX,
            has_walked: false,
            is_table_out: false,
            waits: None,
        }
    }

    /// Begins the walk anew.
    pub(crate) fn restart_walk(&mut self) {
        self.walk = ScrubStatus::default();
        self.has_walked = false;
    }
}
