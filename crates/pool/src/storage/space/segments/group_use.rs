//! The records that may be placed in a group of devices.

use crate::format::superblock::config::Purpose;

/// The records that may be placed in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupUse {
    Records,
    Logs,
    /// No new records. The group still holds old ones. It still holds records.
    NoMore,
    /// No records. The group is removed, or about to be removed. The group is removed, or about to be removed.
    Nothing,
}

impl GroupUse {
    pub(crate) fn of(purpose: Purpose) -> GroupUse {
        match purpose {
            Purpose::Data => GroupUse::Records,
            Purpose::Logs => GroupUse::Logs,
            Purpose::Leaving => GroupUse::NoMore,
            Purpose::Gone | Purpose::Moved => GroupUse::Nothing,
        }
    }
}
