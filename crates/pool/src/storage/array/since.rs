//! Finds the changes of an array since a transaction group whose state is not stored any more.

use crate::error::Result;
use crate::format::records::node::coverage;
use crate::format::records::pointer::{RecordIdentity, RecordPtr, SLOT_LIMIT};
use crate::storage::array::diff::SlotDifference;
use crate::storage::array::walk::{check_root, too_many};
use crate::storage::nodes::Nodes;

/// Reports the records of an array that were born after `txg`, and the slots that may have lost a record since. Begins
/// at `from`, in the order of slots. `older` is the identity of the root at `txg`. A node that was not born since has
/// not changed.
pub(crate) fn since(
    nodes: &dyn Nodes,
    older: &RecordIdentity,
    newer: &RecordPtr,
    (from, txg): (u64, u64),
    each: &mut dyn FnMut(SlotDifference<'_>) -> Result<()>,
) -> Result<()> {
    check_root(newer)?;
    if *older == newer.identity {
        return Ok(());
    }
    let mut since = SinceWalk {
        nodes,
        from,
        txg,
        left: nodes.units(),
        empty: (0, 0),
        each,
    };
    let end = match newer.is_empty() {
        true => 0,
        false => {
            since.below(newer, 0)?;
            coverage(newer.level()).min(SLOT_LIMIT)
        }
    };
    // The tree may have been higher at `txg`.
    since.note_empty(end, SLOT_LIMIT)?;
    since.show_empty()
}

struct SinceWalk<'a> {
    nodes: &'a dyn Nodes,
    from: u64,
    txg: u64,
    /// The number of nodes that may still be read.
    left: u64,
    /// The last empty slots, not reported yet: the first one, and the end.
    empty: (u64, u64),
    each: &'a mut dyn FnMut(SlotDifference<'_>) -> Result<()>,
}

impl SinceWalk<'_> {
    fn below(&mut self, ptr: &RecordPtr, first: u64) -> Result<()> {
        let level = ptr.level();
        let end = first.saturating_add(coverage(level)).min(SLOT_LIMIT);
        if end <= self.from {
            return Ok(());
        }
        if ptr.is_empty() || ptr.place.birth() <= self.txg {
            return Ok(());
        }
        if level == 0 {
            self.show_empty()?;
            return (self.each)(SlotDifference::Record(first, ptr));
        }
        self.left = self.left.checked_sub(1).ok_or_else(too_many)?;
        let node = self.nodes.node(ptr, level, first)?;
        for (index, child) in node.children.iter().enumerate() {
            let child_first = first + index as u64 * coverage(level - 1);
            match child.is_empty() {
                true => self.note_empty(child_first, child_first + coverage(level - 1))?,
                false => self.below(child, child_first)?,
            }
        }
        Ok(())
    }

    fn note_empty(&mut self, first: u64, end: u64) -> Result<()> {
        let (first, end) = (first.max(self.from), end.min(SLOT_LIMIT));
        if first >= end {
            return Ok(());
        }
        if self.empty.1 != first {
            self.show_empty()?;
            self.empty.0 = first;
        }
        self.empty.1 = end;
        Ok(())
    }

    fn show_empty(&mut self) -> Result<()> {
        let (first, end) = std::mem::take(&mut self.empty);
        match first < end {
            true => (self.each)(SlotDifference::Empty(first, end - first)),
            false => Ok(()),
        }
    }
}
