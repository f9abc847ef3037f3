//! What may be placed in a group of devices.

use crate::format::config::Purpose;

/// What may be placed in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Records,
    Logs,
    /// Nothing new. It still holds records.
    NoMore,
    /// Nothing. The group is removed, or about to be removed.
    Nothing,
}

impl Takes {
    pub(super) fn of(purpose: Purpose) -> Takes {
        match purpose {
            Purpose::Data => Takes::Records,
            Purpose::Logs => Takes::Logs,
            Purpose::Leaving => Takes::NoMore,
            Purpose::Gone | Purpose::Moved => Takes::Nothing,
        }
    }
}
