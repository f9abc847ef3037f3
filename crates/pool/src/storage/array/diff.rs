//! The differences between two states of an array. Equal parts are not read.

use std::sync::Arc;

use crate::error::Result;
use crate::format::records::node::{ArrayNode, FANOUT, coverage};
use crate::format::records::pointer::{RecordPtr, SLOT_LIMIT};
use crate::storage::array::walk::{check_root, too_many};
use crate::storage::nodes::Nodes;

/// A difference between two states of an array.
pub(crate) enum SlotDifference<'a> {
    /// A slot has this record. Before it had another one, or none.
    Record(u64, &'a RecordPtr),
    /// The slots that have no record. Before some of them had one.
    Empty(u64, u64),
}

/// Visits the differences between an older and a newer state of an array, in the order of slots, from `from` on.
/// Does not read subtrees that both states share.
pub(crate) fn diff(
    nodes: &dyn Nodes,
    older: &RecordPtr,
    newer: &RecordPtr,
    from: u64,
    each: &mut dyn FnMut(SlotDifference<'_>) -> Result<()>,
) -> Result<()> {
    check_root(older)?;
    check_root(newer)?;
    let left = nodes.units();
    // Both are compared from the same level: a lower tree counts as a first child.
    let level = older.level().max(newer.level());
    ArrayDiff {
        nodes,
        from,
        left,
        each,
    }
    .below(level, older, newer, 0)
}

struct ArrayDiff<'a> {
    nodes: &'a dyn Nodes,
    from: u64,
    /// The number of nodes that may still be read.
    left: u64,
    each: &'a mut dyn FnMut(SlotDifference<'_>) -> Result<()>,
}

impl ArrayDiff<'_> {
    /// Compares two subtrees below a level. Either tree may be lower than the level.
    fn below(&mut self, level: u8, older: &RecordPtr, newer: &RecordPtr, first: u64) -> Result<()> {
        let end = first.saturating_add(coverage(level)).min(SLOT_LIMIT);
        if older == newer || end <= self.from {
            return Ok(());
        }
        if newer.is_empty() {
            let first = first.max(self.from);
            return (self.each)(SlotDifference::Empty(first, end - first));
        }
        if level == 0 {
            return (self.each)(SlotDifference::Record(first, newer));
        }
        // A forged tree may have many ways to the same nodes.
        self.left = self.left.checked_sub(1).ok_or_else(too_many)?;
        let olds = Children::of(self.nodes, older, level, first)?;
        let news = Children::of(self.nodes, newer, level, first)?;
        for index in 0..FANOUT {
            let child_first = first + index as u64 * coverage(level - 1);
            self.below(level - 1, &olds.get(index), &news.get(index), child_first)?;
        }
        Ok(())
    }
}

/// The children of a subtree at a level.
enum Children {
    Node(Arc<ArrayNode>),
    /// The tree is lower than this level. It counts as the first child.
    Lower(RecordPtr),
}

impl Children {
    fn of(nodes: &dyn Nodes, ptr: &RecordPtr, level: u8, slot: u64) -> Result<Children> {
        if ptr.is_empty() || ptr.level() < level && slot == 0 {
            return Ok(Children::Lower(*ptr));
        }
        Ok(Children::Node(nodes.node(ptr, level, slot)?))
    }

    fn get(&self, index: usize) -> RecordPtr {
        match self {
            Children::Node(node) => node.children[index],
            Children::Lower(ptr) if index == 0 => *ptr,
            Children::Lower(_) => RecordPtr::EMPTY,
        }
    }
}

/// The last slot of an array whose record was born after `min_birth`.
pub(crate) fn last(nodes: &dyn Nodes, root: &RecordPtr, min_birth: u64) -> Result<Option<u64>> {
    check_root(root)?;
    let mut left = nodes.units();
    last_below(nodes, root, 0, min_birth, &mut left)
}

fn last_below(
    nodes: &dyn Nodes,
    ptr: &RecordPtr,
    first: u64,
    min_birth: u64,
    left: &mut u64,
) -> Result<Option<u64>> {
    let level = ptr.level();
    if ptr.is_empty() || ptr.place.birth() <= min_birth {
        return Ok(None);
    }
    if level == 0 {
        return Ok(Some(first));
    }
    *left = left.checked_sub(1).ok_or_else(too_many)?;
    let node = nodes.node(ptr, level, first)?;
    for (index, child) in node.children.iter().enumerate().rev() {
        let child_first = first + index as u64 * coverage(level - 1);
        let found = last_below(nodes, child, child_first, min_birth, left)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    // The tree is young because a record was removed from it.
    Ok(None)
}
