//! The order in which the parts of the data are worked on.
//!
//! | course | order | where a part goes |
//! |---|---|---|
//! | forward, backward | from the beginning, or from the end | where it was |
//! | up | from the end; the first part, which was moved behind the end, last | to where the part behind it was |
//! | down | from the second part; the first, which was moved to the front, last | to where the part before it was |

/// The order in which the parts of the data are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    Forward,
    Backward,
    /// An encryption that makes space for a header.
    Up,
    /// A decryption that removes the space of a header.
    Down,
}

/// How a part of the data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    New,
    /// A part of it is new, and nothing says which.
    Hot,
    Old,
    /// As it was, where it was moved to.
    Moved,
}

/// A part of the data that is worked on as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it begins in the data, in bytes.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// Whether it is the one that was moved.
    pub(crate) is_moved: bool,
}

/// A part of the data in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) state: State,
    /// Where it begins in the data, in bytes.
    pub(crate) at: u64,
    /// How long it is; to the end of the device if not said.
    pub(crate) len: Option<u64>,
}

impl Course {
    /// In which order the states of data follow each other.
    pub(super) fn rank(self, state: State, at: u64) -> u8 {
        use State::{Hot, Moved, New, Old};
        let order = match self {
            Course::Forward => [New, Hot, Old, Moved],
            Course::Backward => [Old, Hot, New, Moved],
            // What is hot at the beginning is the moved part.
            Course::Down if state == Hot && at == 0 => return 0,
            Course::Up => [Moved, Old, Hot, New],
            Course::Down => [Moved, New, Hot, Old],
        };
        let place = order.iter().position(|of| *of == state);
        place.unwrap_or(order.len()) as u8
    }
}
