//! Combines small writes of a commit into large ones.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use store::{SegmentId, Store, UNIT};
use zerocopy::IntoBytes;

use crate::error::Result;
use crate::format::records::node::ArrayNode;

/// A batch is written when it holds this many bytes.
const BATCH_MAX: usize = 4 << 20;

/// Bytes to write.
#[derive(Clone)]
pub(crate) enum BatchPiece {
    Node(Arc<ArrayNode>),
    Bytes(Arc<Vec<u8>>),
    Part(Arc<Vec<u8>>, Range<usize>),
}

impl BatchPiece {
    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            BatchPiece::Node(node) => node.as_bytes(),
            BatchPiece::Bytes(bytes) => bytes,
            BatchPiece::Part(bytes, range) => &bytes[range.clone()],
        }
    }

    /// A range of its bytes.
    pub(crate) fn part(&self, range: Range<usize>) -> BatchPiece {
        match self {
            BatchPiece::Bytes(bytes) => BatchPiece::Part(Arc::clone(bytes), range),
            // Nodes are one unit long and never divided.
            BatchPiece::Node(_) | BatchPiece::Part(..) => {
                BatchPiece::Bytes(Arc::new(self.bytes()[range].to_vec()))
            }
        }
    }
}

/// Pieces that wait to be written.
#[derive(Default)]
pub(crate) struct WriteBatch {
    waiting: Mutex<WaitingPieces>,
}

#[derive(Default)]
struct WaitingPieces {
    pieces: Vec<(SegmentId, u32, BatchPiece)>,
    bytes: usize,
}

impl WriteBatch {
    /// Adds pieces, each with its place. If that fills the batch, writes all of it and returns true.
    pub(crate) fn add(
        &self,
        store: &Store,
        pieces: Vec<(SegmentId, u32, BatchPiece)>,
    ) -> Result<bool> {
        let mut waiting = self.waiting.lock();
        waiting.bytes += pieces
            .iter()
            .map(|(_, _, piece)| piece.len())
            .sum::<usize>();
        waiting.pieces.extend(pieces);
        if waiting.bytes < BATCH_MAX {
            return Ok(false);
        }
        let full = std::mem::take(&mut *waiting);
        write(store, full)?;
        Ok(true)
    }

    /// Writes all waiting pieces.
    pub(crate) fn write(&self, store: &Store) -> Result<()> {
        let rest = std::mem::take(&mut *self.waiting.lock());
        write(store, rest)
    }
}

fn write(store: &Store, waiting: WaitingPieces) -> Result<()> {
    let pieces = waiting.pieces.iter();
    let slices = pieces.map(|(segment, offset, piece)| (*segment, *offset, piece.bytes()));
    write_slices(store, slices.collect())
}

/// Writes neighbours with one call.
pub(crate) fn write_slices(store: &Store, mut slices: Vec<(SegmentId, u32, &[u8])>) -> Result<()> {
    slices.sort_unstable_by_key(|(segment, offset, _)| (*segment, *offset));
    let end = |(segment, offset, bytes): &(SegmentId, u32, &[u8])| {
        let units = (bytes.len() as u32).div_ceil(UNIT);
        offset + store.shape(segment.group()).taken(units) * UNIT
    };
    debug_assert!(
        (slices.windows(2)).all(|pair| pair[0].0 != pair[1].0 || end(&pair[0]) <= pair[1].1),
        "no two pieces have the same unit"
    );
    let adjacent =
        |a: &(SegmentId, u32, &[u8]), b: &(SegmentId, u32, &[u8])| a.0 == b.0 && end(a) == b.1;
    for run in slices.chunk_by(adjacent) {
        let stripes: Vec<&[u8]> = run.iter().map(|(_, _, bytes)| *bytes).collect();
        store.write_each(run[0].0, run[0].1, &stripes)?;
    }
    Ok(())
}
