//! Requests for the data of a container that is open, and those of them that continue in a part that is encrypted
//! anew.

use crate::header::luks2::{DataExtent, DataPart, ReencryptionState, Resilience};

/// Requests for the data, which go on while it is encrypted anew.
pub(crate) trait Traffic {
    /// Returns whether there can be any requests.
    fn goes_on(&self) -> bool;

    /// Makes requests for a part wait, except those that may continue in it. When this returns, none of the others
    /// runs.
    fn hold(&self, part: &DataPart, goes_on: AllowedRequests);

    /// An address in the held part for which a request waits, if it is not new.
    fn wanted(&self) -> Option<u64>;

    /// Makes all requests for a piece of the held part wait. When this returns, none of them runs.
    fn hold_piece(&self, at: u64, len: u64);

    /// The piece is new.
    fn release_piece(&self);

    /// Serves the data as it is now, and lets no request wait.
    fn release(&self, layout: &[DataExtent]);

    /// Makes requests for the held part fail: nobody knows which of its blocks are new.
    fn fail(&self);
}

/// The requests that continue in a held part, except in the piece that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedRequests {
    Nothing,
    /// Reads. A write would be lost if the part had to be recovered.
    Reads,
    /// Reads, and writes of whole blocks of so many bytes, where the part is new.
    Blocks(u32),
}

impl AllowedRequests {
    pub(super) fn new(state: &ReencryptionState, part: &DataPart) -> AllowedRequests {
        match state.resilience_of(part) {
            // It goes to another address, where something else is until then.
            _ if part.is_moved => AllowedRequests::Nothing,
            Resilience::Shift(_) => AllowedRequests::Nothing,
            Resilience::None | Resilience::Journal => AllowedRequests::Reads,
            // A recovery leaves alone what is not as it was.
            Resilience::Checksum { block, .. } => AllowedRequests::Blocks(block),
        }
    }
}

/// The traffic of data that no mapping has open.
pub(super) struct NoTraffic;

impl Traffic for NoTraffic {
    fn goes_on(&self) -> bool {
        false
    }

    fn hold(&self, _: &DataPart, _: AllowedRequests) {}

    fn wanted(&self) -> Option<u64> {
        None
    }

    fn hold_piece(&self, _: u64, _: u64) {}

    fn release_piece(&self) {}

    fn release(&self, _: &[DataExtent]) {}

    fn fail(&self) {}
}
