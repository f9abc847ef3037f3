//! Combines small writes of a commit into large ones.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use store::{SegmentId, Store, UNIT};
use zerocopy::IntoBytes;

use crate::error::Result;
use crate::format::records::node::Node;

/// A batch is written when it holds this many bytes.
const BATCH_MAX: usize = 4 << 20;

/// Bytes to write.
#[derive(Clone)]
pub(crate) enum Piece {
    Node(Arc<Node>),
    Bytes(Arc<Vec<u8>>),
    Part(Arc<Vec<u8>>, Range<usize>),
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Piece::Node(node) => node.as_bytes(),
            Piece::Bytes(bytes) => bytes,
            Piece::Part(bytes, range) => &bytes[range.clone()],
        }
    }

    /// A range of its bytes.
    pub(crate) fn part(&self, range: Range<usize>) -> Piece {
        match self {
            Piece::Bytes(bytes) => Piece::Part(Arc::clone(bytes), range),
            // Nodes are one unit long and never divided.
            Piece::Node(_) | Piece::Part(..) => {
                Piece::Bytes(Arc::new(self.bytes()[range].to_vec()))
            }
        }
    }
}

/// Pieces that wait to be written.
#[derive(Default)]
pub(crate) struct Batch {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    pieces: Vec<(SegmentId, u32, Piece)>,
    bytes: usize,
}

impl Batch {
    /// Adds pieces, each with its place. If that fills the batch, writes all of it and returns true.
    pub(crate) fn add(&self, store: &Store, pieces: Vec<(SegmentId, u32, Piece)>) -> Result<bool> {
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

fn write(store: &Store, waiting: Waiting) -> Result<()> {
    let pieces = waiting.pieces.iter();
    let slices = pieces.map(|(segment, offset, piece)| (*segment, *offset, piece.bytes()));
    write_slices(store, slices.collect())
}

/// Writes neighbours with one call.
pub(crate) fn write_slices(store: &Store, mut slices: Vec<(SegmentId, u32, &[u8])>) -> Result<()> {
    slices.sort_unstable_by_key(|(segment, offset, _)| (*segment, *offset));
    let adjacent = |a: &(SegmentId, u32, &[u8]), b: &(SegmentId, u32, &[u8])| {
        let units = (a.2.len() as u32).div_ceil(UNIT);
        let end = a.1 + store.shape(a.0.group()).taken(units) * UNIT;
        a.0 == b.0 && end == b.1
    };
    for run in slices.chunk_by(adjacent) {
        let stripes: Vec<&[u8]> = run.iter().map(|(_, _, bytes)| *bytes).collect();
        store.write_each(run[0].0, run[0].1, &stripes)?;
    }
    Ok(())
}
