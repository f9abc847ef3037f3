//! What a snapshot is sent as: frames, each of which says that it is whole and follows the one before.
//!
//! A stream holds what is new in a snapshot, or new since an earlier one: the identities of its records
//! with their bytes, in the order of their slots, and which slots were emptied. Its first frame, the
//! [`Begin`], says what must come out of that: the identities of the roots of both arrays. So whoever
//! receives it can tell, without a key, that he has what was sent. A stream *in the clear* holds what is in
//! the records instead, opened by whoever has the key, and what comes out is sealed anew.
//! `docs/FORMAT.md` describes the bytes.

mod begin;
mod frame;
mod token;

pub(crate) use begin::{BEGIN_MAX, lineage};
pub use begin::{Begin, Lineage, Sender};
#[cfg(fuzzing)]
pub(crate) use frame::fuzzing::{made_to_fit, read_all, samples};
pub(crate) use frame::{Frame, FrameReader, FrameWriter};
pub use token::ResumeToken;

use crate::open::ArrayKind;

/// A place in the order in which a stream goes through a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// 0 pages, 1 data.
    array: u8,
    slot: u64,
}

impl Position {
    /// Where a stream begins.
    pub const START: Position = Position { array: 0, slot: 0 };

    /// A slot of an array.
    pub(crate) fn new(array: ArrayKind, slot: u64) -> Position {
        let array = array as u8;
        Position { array, slot }
    }

    /// From its numbers, if they can be.
    pub(crate) fn checked(array: u8, slot: u64) -> Option<Position> {
        let fits = array < 2 && slot <= crate::layout::SLOT_LIMIT;
        fits.then_some(Position { array, slot })
    }

    /// The first slot of an array that it leaves to do.
    pub(crate) fn slot_in(&self, array: ArrayKind) -> Option<u64> {
        match (array as u8).cmp(&self.array) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(self.slot),
            std::cmp::Ordering::Greater => Some(0),
        }
    }
}
