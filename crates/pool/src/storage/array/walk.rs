//! Reads arrays.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::records::node::{ArrayNode, child_index, coverage};
use crate::format::records::pointer::{LEVEL_MAX, RecordPtr};
use crate::storage::nodes::Nodes;

/// Refuses the root of an array unless it is empty or a node. A root with an identity and no place is not empty.
pub(crate) fn check_root(root: &RecordPtr) -> Result<()> {
    let is_node = !root.is_empty() && root.level() > 0 && root.is_consistent();
    if *root == RecordPtr::EMPTY || is_node {
        return Ok(());
    }
    let what = "tree of nodes";
    Err(Error::inconsistent(what, "its root is not a node"))
}

/// The record in a slot, or the empty pointer.
pub(crate) fn get(nodes: &dyn Nodes, root: &RecordPtr, slot: u64) -> Result<RecordPtr> {
    get_by(root, slot, |ptr, level| nodes.node(ptr, level, slot))
}

/// Does the same as [`get`], where `node` reads the nodes.
pub(crate) fn get_by(
    root: &RecordPtr,
    slot: u64,
    node: impl Fn(&RecordPtr, u8) -> Result<Arc<ArrayNode>>,
) -> Result<RecordPtr> {
    check_root(root)?;
    let mut ptr = *root;
    if slot >= coverage(ptr.level()) {
        return Ok(RecordPtr::EMPTY);
    }
    while !ptr.is_empty() && ptr.level() > 0 {
        let level = ptr.level();
        ptr = node(&ptr, level)?.children[child_index(slot, level)];
    }
    Ok(ptr)
}

/// An item that a visitor gets.
pub(crate) enum Visit<'a> {
    /// A node, its pointer and the first slot that it covers, after everything below it.
    Node(u64, &'a RecordPtr, &'a ArrayNode),
    /// A record and its slot.
    Record(u64, &'a RecordPtr),
}

/// Visits the records at or after `from` that were born after `min_birth`, in the order of slots, and the nodes
/// above them, each node after its children. Does not read older subtrees: nothing below an older node is younger.
/// Visits a node that begins before `from` and ends after it.
pub(crate) fn visit<B>(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    from: u64,
    min_birth: u64,
    visitor: &mut dyn FnMut(Visit<'_>) -> Result<ControlFlow<B>>,
) -> Result<ControlFlow<B>> {
    visit_within(nodes, root, (from, min_birth), &mut nodes.units(), visitor)
}

/// Does the same as [`visit`], for at most `left` nodes and unshared records. Each of them has a place of its own. So
/// there are at most as many as units, unless a forged tree has many paths to the same node.
pub(crate) fn visit_within<B>(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    (from, min_birth): (u64, u64),
    left: &mut u64,
    visitor: &mut dyn FnMut(Visit<'_>) -> Result<ControlFlow<B>>,
) -> Result<ControlFlow<B>> {
    check_root(root)?;
    descend(nodes, root, 0, (from, min_birth), left, visitor)
}

fn descend<B>(
    nodes: &dyn Nodes,
    ptr: &RecordPtr,
    first: u64,
    (from, min_birth): (u64, u64),
    left: &mut u64,
    visitor: &mut dyn FnMut(Visit<'_>) -> Result<ControlFlow<B>>,
) -> Result<ControlFlow<B>> {
    let level = ptr.level();
    let ends_before = first.saturating_add(coverage(level)) <= from;
    if ptr.is_empty() || ptr.place.birth() <= min_birth || ends_before {
        return Ok(ControlFlow::Continue(()));
    }
    count(ptr, left)?;
    if level == 0 {
        return visitor(Visit::Record(first, ptr));
    }
    let node = nodes.node(ptr, level, first)?;
    for (index, child) in node.children.iter().enumerate() {
        let child_first = first + index as u64 * coverage(level - 1);
        let below = descend(nodes, child, child_first, (from, min_birth), left, visitor)?;
        if let ControlFlow::Break(b) = below {
            return Ok(ControlFlow::Break(b));
        }
    }
    visitor(Visit::Node(first, ptr, &node))
}

/// Shared records do not count: their number is bounded by that of the nodes above them.
fn count(ptr: &RecordPtr, left: &mut u64) -> Result<()> {
    if ptr.level() > 0 || ptr.place.share().is_none() {
        *left = left.checked_sub(1).ok_or_else(too_many)?;
    }
    Ok(())
}

pub(crate) fn too_many() -> Error {
    let detail = "it has more nodes and records than the pool has space for";
    Error::inconsistent("tree of nodes", detail)
}

/// Visits every record of an array, in the order of slots.
pub(crate) fn each_record(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    each: &mut dyn FnMut(u64, &RecordPtr) -> Result<()>,
) -> Result<()> {
    visit_all(nodes, root, &mut |visit| match visit {
        Visit::Record(slot, ptr) => each(slot, ptr),
        Visit::Node(..) => Ok(()),
    })
}

/// Visits every record and node of an array.
pub(crate) fn visit_all(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    visitor: &mut dyn FnMut(Visit<'_>) -> Result<()>,
) -> Result<()> {
    visit::<()>(nodes, root, 0, 0, &mut |visit| {
        visitor(visit).map(ControlFlow::Continue)
    })
    .map(|_| ())
}

/// The first slot at or after `from` that holds a record, and the record.
pub(crate) fn next(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    from: u64,
) -> Result<Option<(u64, RecordPtr)>> {
    let found = visit(nodes, root, from, 0, &mut |visit| {
        Ok(match visit {
            Visit::Record(slot, ptr) => ControlFlow::Break((slot, *ptr)),
            Visit::Node(..) => ControlFlow::Continue(()),
        })
    })?;
    Ok(match found {
        ControlFlow::Break(found) => Some(found),
        ControlFlow::Continue(()) => None,
    })
}

/// Visits the records and nodes of an older state of an array that the newer state does not have in the same
/// places. Does not read subtrees that both states share.
pub(crate) fn gone(
    nodes: &dyn Nodes,
    older: &RecordPtr,
    newer: &RecordPtr,
    each: &mut dyn FnMut(&RecordPtr) -> Result<()>,
) -> Result<()> {
    check_root(older)?;
    check_root(newer)?;
    let mut newer = *newer;
    // If the tree grew, the older root or its successor is at the left edge.
    while !older.is_empty() && newer.level() > older.level() {
        newer = nodes.node(&newer, newer.level(), 0)?.children[0];
    }
    let mut left = nodes.units();
    gone_below(nodes, older, &newer, 0, &mut left, each)
}

fn gone_below(
    nodes: &dyn Nodes,
    older: &RecordPtr,
    newer: &RecordPtr,
    first: u64,
    left: &mut u64,
    each: &mut dyn FnMut(&RecordPtr) -> Result<()>,
) -> Result<()> {
    if older.is_empty() || older == newer {
        return Ok(());
    }
    count(older, left)?;
    each(older)?;
    let level = older.level();
    if level == 0 {
        return Ok(());
    }
    let children = nodes.node(older, level, first)?;
    // If the tree became lower, its root is in the place of an only child.
    let others = match newer.level() {
        same if same == level => Some(nodes.node(newer, level, first)?),
        _ => None,
    };
    for (index, child) in children.children.iter().enumerate() {
        let other = match &others {
            Some(node) => node.children[index],
            None if index == 0 && first == 0 => *newer,
            None => RecordPtr::EMPTY,
        };
        let child_first = first + index as u64 * coverage(level - 1);
        gone_below(nodes, child, &other, child_first, left, each)?;
    }
    Ok(())
}

/// Returns whether the array still has this record or node at `slot`.
pub(crate) fn contains(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    slot: u64,
    wanted: &RecordPtr,
) -> Result<bool> {
    let mut ptr = *root;
    if slot >= coverage(ptr.level()) {
        return Ok(false);
    }
    while !ptr.is_empty() {
        if ptr == *wanted {
            return Ok(true);
        }
        // Deeper in the tree there are only lower nodes.
        if ptr.level() <= wanted.level() {
            break;
        }
        let level = ptr.level();
        ptr = nodes.node(&ptr, level, slot)?.children[child_index(slot, level)];
    }
    Ok(false)
}

/// The first node at or after `from` that cannot be read: its first slot and its level.
pub(crate) fn first_unreadable(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    from: u64,
) -> Option<(u64, u8)> {
    if check_root(root).is_err() {
        return Some((0, LEVEL_MAX));
    }
    let mut left = nodes.units();
    unreadable_below(nodes, root, 0, from, &mut left)
}

fn unreadable_below(
    nodes: &dyn Nodes,
    ptr: &RecordPtr,
    first: u64,
    from: u64,
    left: &mut u64,
) -> Option<(u64, u8)> {
    let level = ptr.level();
    let ends_before = first.saturating_add(coverage(level)) <= from;
    if ptr.is_empty() || level == 0 || ends_before {
        return None;
    }
    if *left == 0 {
        // More nodes than units: the tree is forged.
        return Some((0, LEVEL_MAX));
    }
    *left -= 1;
    let Ok(node) = nodes.node(ptr, level, first) else {
        return Some((first, level));
    };
    node.children.iter().enumerate().find_map(|(index, child)| {
        let child_first = first + index as u64 * coverage(level - 1);
        unreadable_below(nodes, child, child_first, from, left)
    })
}
