//! What may be placed in a group of devices.

use crate::format::config::Purpose;

/// What may be placed in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Records,
    Logs,
    /// It holds records, and gets no more.
    NoMore,
    /// It is gone, or about to go.
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
