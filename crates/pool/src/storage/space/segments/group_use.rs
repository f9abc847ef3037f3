//! The records that may be placed in a group of devices.

use crate::format::superblock::config::Purpose;

/// The records that may be placed in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Records,
    Logs,
    /// No new records. The group still holds old ones. It still holds records.
    NoMore,
    /// No records. The group is removed, or about to be removed. The group is removed, or about to be removed.
    Nothing,
}

impl Takes {
    pub(crate) fn of(purpose: Purpose) -> Takes {
        match purpose {
            Purpose::Data => Takes::Records,
            Purpose::Logs => Takes::Logs,
            Purpose::Leaving => Takes::NoMore,
            Purpose::Gone | Purpose::Moved => Takes::Nothing,
        }
    }
}
