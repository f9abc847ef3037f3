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

/// The state of a part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    New,
    /// A part of it is new, and nothing says which.
    Hot,
    Old,
    /// The data is old, and at the address to which it was moved.
    Moved,
}

/// A part of the data that is worked on as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataPart {
    /// The address of the part in the data, in bytes.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// True if it is the part that was moved.
    pub(crate) is_moved: bool,
}

/// A part of the data in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataExtent {
    pub(crate) state: State,
    /// The address of the part in the data, in bytes.
    pub(crate) at: u64,
    /// The length, in bytes. `None`: the part ends with the device.
    pub(crate) len: Option<u64>,
}

impl Course {
    /// Returns the position of a state in the order of the segments.
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
