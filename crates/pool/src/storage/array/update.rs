//! Writes the changes of a transaction group into the nodes of an array.
//!
//! Changed nodes are written to new places, from the bottom up. Nothing is overwritten. Pointers that the new tree
//! no longer has are reported, so that their space is freed or kept for a snapshot.

use crate::error::Result;
use crate::format::records::node::{ArrayNode, FANOUT, child_index, coverage, level_for};
use crate::format::records::pointer::RecordPtr;
use crate::storage::array::Edits;
use crate::storage::array::walk::check_root;
use crate::storage::nodes::Nodes;

/// Receives the new nodes, and the added and removed pointers.
pub(crate) trait UpdateTarget {
    /// The array points to this record or node from now on.
    fn born(&mut self, ptr: &RecordPtr);

    /// The array no longer points to this record or node.
    fn killed(&mut self, ptr: &RecordPtr) -> Result<()>;

    /// Places a node of a level, and returns its pointer.
    fn place_node(&mut self, node: ArrayNode, level: u8) -> Result<RecordPtr>;
}

/// Applies `edits`, in the order of slots, to the array at `root`, and returns its new root.
pub(crate) fn update(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    edits: &[(u64, &Edits)],
    target: &mut dyn UpdateTarget,
) -> Result<RecordPtr> {
    let Some((last, _)) = edits.last() else {
        return Ok(*root);
    };
    debug_assert!(
        edits.is_sorted_by(|a, b| a.0 < b.0),
        "each lowest node has its edits once, in order"
    );
    check_root(root)?;
    let level = level_for(last * FANOUT as u64).max(root.level());
    Update { nodes, target }.node(level, root, edits)
}

/// Gives an array another height: adds nodes above its root, or removes nodes that have only a first child.
pub(crate) fn relevel(
    nodes: &dyn Nodes,
    root: &RecordPtr,
    level: u8,
    target: &mut dyn UpdateTarget,
) -> Result<RecordPtr> {
    let mut root = *root;
    if root.is_empty() {
        return Ok(root);
    }
    while root.level() > level.max(1) {
        let node = nodes.node(&root, root.level(), 0)?;
        // A record beyond the first child needs this height.
        if node.children[1..].iter().any(|child| !child.is_empty()) {
            break;
        }
        target.killed(&root)?;
        root = node.children[0];
    }
    Update { nodes, target }.lift(level, root)
}

struct Update<'a> {
    nodes: &'a dyn Nodes,
    target: &'a mut dyn UpdateTarget,
}

impl Update<'_> {
    /// Applies edits to the node at `old`. At `level` the node covers all of them.
    fn node(&mut self, level: u8, old: &RecordPtr, edits: &[(u64, &Edits)]) -> Result<RecordPtr> {
        debug_assert!(
            level > 0 && !edits.is_empty(),
            "only nodes with changes are written"
        );
        let covered = edits.first().map_or(0, |edit| edit.0 * FANOUT as u64);
        let mut node = self.load(level, old, covered)?;
        if level == 1 {
            for (_, edit) in edits {
                self.records(&mut node, edit)?;
            }
        } else {
            self.children(level, &mut node, edits)?;
        }
        // A lower node has become a child. It is still in the tree.
        if old.level() == level && !old.is_empty() {
            self.target.killed(old)?;
        }
        // Empty nodes are not stored, so that an emptied array takes no space.
        if node.is_empty() {
            return Ok(RecordPtr::EMPTY);
        }
        self.place(node, level)
    }

    /// The node at `old`, or a new node with `old` as its first child if `old` is lower than `level`.
    fn load(&self, level: u8, old: &RecordPtr, slot: u64) -> Result<ArrayNode> {
        if old.is_empty() {
            return Ok(ArrayNode::empty());
        }
        if old.level() == level {
            return Ok(self.nodes.node(old, level, slot)?.as_ref().clone());
        }
        let mut node = ArrayNode::empty();
        node.children[0] = *old;
        Ok(node)
    }

    fn records(&mut self, node: &mut ArrayNode, edit: &Edits) -> Result<()> {
        for (index, new) in edit.iter() {
            let old = std::mem::replace(&mut node.children[index], *new);
            if !old.is_empty() {
                self.target.killed(&old)?;
            }
            if !new.is_empty() {
                self.target.born(new);
            }
        }
        Ok(())
    }

    fn children(&mut self, level: u8, node: &mut ArrayNode, edits: &[(u64, &Edits)]) -> Result<()> {
        let index_of = |edit: &(u64, &Edits)| child_index(edit.0 * FANOUT as u64, level);
        for group in edits.chunk_by(|a, b| index_of(a) == index_of(b)) {
            let index = index_of(&group[0]);
            node.children[index] = self.node(level - 1, &node.children[index], group)?;
        }
        // The tree grew: the old root becomes the first child, at the level of its siblings.
        let first = node.children[0];
        if !first.is_empty() && first.level() < level - 1 {
            node.children[0] = self.lift(level - 1, first)?;
        }
        Ok(())
    }

    /// Adds nodes above `ptr` up to the level of its siblings.
    fn lift(&mut self, level: u8, mut ptr: RecordPtr) -> Result<RecordPtr> {
        while ptr.level() < level {
            let mut node = ArrayNode::empty();
            node.children[0] = ptr;
            ptr = self.place(node, ptr.level() + 1)?;
        }
        Ok(ptr)
    }

    fn place(&mut self, node: ArrayNode, level: u8) -> Result<RecordPtr> {
        debug_assert!(coverage(level) > 0);
        let ptr = self.target.place_node(node, level)?;
        self.target.born(&ptr);
        Ok(ptr)
    }
}
