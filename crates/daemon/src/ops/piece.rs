//! One stream of several in sequence.

use pool::{Entry, Marked, Position};

/// One stream.
pub(crate) struct Piece {
    /// The snapshot that it brings.
    pub(crate) to: u64,
    /// The one that it goes on from.
    pub(crate) from: Option<u64>,
    /// The bookmark that it goes on from.
    pub(crate) mark: Option<Marked>,
    /// Where it begins, if a part of it was received already.
    pub(crate) start: Position,
}

impl Piece {
    pub(crate) fn new(to: &Entry, from: Option<&Entry>) -> Piece {
        Piece {
            to: to.id,
            from: from.map(|from| from.id),
            mark: None,
            start: Position::START,
        }
    }
}
