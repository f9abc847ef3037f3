//! A stream of a sequence that one command sends.

use pool::{Entry, Marked, Position};

/// A stream of a send.
pub(crate) struct StreamPiece {
    /// The snapshot that it sends.
    pub(crate) to: u64,
    /// The snapshot that an incremental stream starts from.
    pub(crate) from: Option<u64>,
    /// The bookmark that an incremental stream starts from.
    pub(crate) mark: Option<Marked>,
    /// The position where the stream starts, if a part of it was received already.
    pub(crate) start: Position,
}

impl StreamPiece {
    pub(crate) fn new(to: &Entry, from: Option<&Entry>) -> StreamPiece {
        StreamPiece {
            to: to.id,
            from: from.map(|from| from.id),
            mark: None,
            start: Position::START,
        }
    }
}
