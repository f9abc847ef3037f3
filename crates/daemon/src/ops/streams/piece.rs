//! A stream of a sequence that one command sends.

use pool::{Entry, NamedBookmark, StreamPosition};

/// A stream of a send.
pub(crate) struct StreamPiece {
    /// The snapshot that it sends.
    pub(crate) to: u64,
    /// The snapshot that an incremental stream starts from.
    pub(crate) from: Option<u64>,
    /// The bookmark that an incremental stream starts from.
    pub(crate) mark: Option<NamedBookmark>,
    /// The position where the stream starts, if a part of it was received already.
    pub(crate) start: StreamPosition,
}

impl StreamPiece {
    pub(crate) fn new(to: &Entry, from: Option<&Entry>) -> StreamPiece {
        StreamPiece {
            to: to.id,
            from: from.map(|from| from.id),
            mark: None,
            start: StreamPosition::START,
        }
    }
}
