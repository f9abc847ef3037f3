//! Requests for the data of a container that is open, and which of them go on while a part is encrypted anew.

use crate::header::luks2::{Extent, Part, Reencryption, Resilience};

/// Requests for the data, which go on while it is encrypted anew.
pub(crate) trait Traffic {
    /// Whether there can be any.
    fn goes_on(&self) -> bool;

    /// Lets requests for a part wait, but for those that go on in it. When this returns, none of the others runs.
    fn hold(&self, part: &Part, goes_on: GoesOn);

    /// A place in the held part for which a request waits, if it is not new.
    fn wanted(&self) -> Option<u64>;

    /// Lets all requests for a piece of the held part wait. When this returns, none of them runs.
    fn hold_piece(&self, at: u64, len: u64);

    /// The piece is new.
    fn release_piece(&self);

    /// Serves the data as it is now, and lets no request wait.
    fn release(&self, layout: &[Extent]);

    /// Lets requests for the part that is held fail: what it is cannot be said.
    fn fail(&self);
}

/// Which requests go on in a part that is held, but for the piece of it that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoesOn {
    Nothing,
    /// What would be written is lost if the part has to be recovered.
    Reads,
    /// Reads, and writes of whole blocks of so many bytes, where the part is new.
    Blocks(u32),
}

impl GoesOn {
    pub(super) fn new(state: &Reencryption, part: &Part) -> GoesOn {
        match state.resilience_of(part) {
            // It goes to another place, where something else is until then.
            _ if part.is_moved => GoesOn::Nothing,
            Resilience::Shift(_) => GoesOn::Nothing,
            Resilience::None | Resilience::Journal => GoesOn::Reads,
            // A recovery leaves alone what is not as it was.
            Resilience::Checksum { block, .. } => GoesOn::Blocks(block),
        }
    }
}

/// Nothing has the data open.
pub(super) struct Closed;

impl Traffic for Closed {
    fn goes_on(&self) -> bool {
        false
    }

    fn hold(&self, _: &Part, _: GoesOn) {}

    fn wanted(&self) -> Option<u64> {
        None
    }

    fn hold_piece(&self, _: u64, _: u64) {}

    fn release_piece(&self) {}

    fn release(&self, _: &[Extent]) {}

    fn fail(&self) {}
}
