//! The free space that a change of an open dataset reserves.

use store::UNIT;

use super::OpenDataset;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::node::{FANOUT, NODE_BYTES, nodes_above};
use crate::storage::writer::reserve::DEAD_BYTES;

impl OpenDataset {
    /// The bytes to reserve for a record of `len` bytes. Then a commit has space for it and for the nodes above it,
    /// however fragmented the pool is.
    pub fn record_space(&self, array: ArrayKind, len: usize) -> u64 {
        self.copies_space(array, len, array.copies())
    }

    /// Returns the same as [`OpenDataset::record_space`], for `copies` copies.
    pub fn copies_space(&self, array: ArrayKind, len: usize, copies: usize) -> u64 {
        let len = (len as u64).next_multiple_of(u64::from(UNIT));
        let map = if len > u64::from(UNIT) { UNIT } else { 0 };
        // The array can grow by a level.
        let height = u64::from(self.height(array).max(1)) + 1;
        (len + u64::from(map)) * copies as u64 + height * NODE_BYTES + DEAD_BYTES
    }

    /// The bytes to reserve for the nodes that change when these slots are emptied. The slots are in ascending
    /// order.
    pub fn punch_space(&self, array: ArrayKind, slots: &[u64]) -> u64 {
        let height = self.height(array);
        let mut last: Option<u64> = None;
        let mut nodes = 0;
        for leaf in slots.iter().map(|slot| slot / FANOUT as u64) {
            if last != Some(leaf) {
                nodes += nodes_above(leaf, height, last.as_slice());
                last = Some(leaf);
            }
        }
        nodes * NODE_BYTES + slots.len() as u64 * DEAD_BYTES
    }
}
