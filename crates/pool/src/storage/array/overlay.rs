//! The changes of a transaction group to an array, before they are written into nodes.
//!
//! An overlay has only the changed slots. So a change needs no node, and the open group cannot change slots of the
//! group that is being written.

use std::collections::BTreeMap;

use crate::format::records::node::{FANOUT, nodes_above};
use crate::format::records::pointer::RecordPtr;

/// Changed slots of one lowest node.
#[derive(Clone)]
pub(crate) struct Edits {
    mask: u32,
    slots: Box<[RecordPtr; FANOUT]>,
}

impl Edits {
    fn none() -> Edits {
        Edits {
            mask: 0,
            slots: Box::new([RecordPtr::EMPTY; FANOUT]),
        }
    }

    fn get(&self, index: usize) -> Option<RecordPtr> {
        (self.mask & (1 << index) != 0).then(|| self.slots[index])
    }

    /// The changed slots: the index in the node, and the new pointer.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &RecordPtr)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(index, _)| self.mask & (1 << index) != 0)
    }
}

/// The changes of one transaction group to one array, by lowest node.
#[derive(Clone, Default)]
pub(crate) struct Overlay {
    nodes: BTreeMap<u64, Edits>,
}

impl Overlay {
    /// The change of the group to a slot: a record, the empty pointer, or `None` if the slot did not change.
    pub(crate) fn get(&self, slot: u64) -> Option<RecordPtr> {
        self.nodes
            .get(&(slot / FANOUT as u64))?
            .get((slot % FANOUT as u64) as usize)
    }

    /// Changes a slot. Returns the earlier change of this group.
    pub(crate) fn put(&mut self, slot: u64, ptr: RecordPtr) -> Option<RecordPtr> {
        let edits = self
            .nodes
            .entry(slot / FANOUT as u64)
            .or_insert_with(Edits::none);
        let index = (slot % FANOUT as u64) as usize;
        let before = edits.get(index);
        edits.mask |= 1 << index;
        edits.slots[index] = ptr;
        before
    }

    /// The number of additional nodes, in an array of `height` levels, that have to be written for a change of this
    /// slot.
    pub(crate) fn new_nodes(&self, slot: u64, height: u8) -> u64 {
        let leaf = slot / FANOUT as u64;
        let before = self.nodes.range(..=leaf).next_back();
        let after = self.nodes.range(leaf..).next();
        let neighbours: Vec<u64> = before.into_iter().chain(after).map(|(n, _)| *n).collect();
        nodes_above(leaf, height, &neighbours)
    }

    /// The first changed slot in the range, and its new pointer.
    pub(crate) fn next(&self, from: u64, before: u64) -> Option<(u64, RecordPtr)> {
        self.range(from, before).next()
    }

    /// The changed slots in a range, and their new pointers.
    pub(crate) fn range(&self, from: u64, before: u64) -> impl Iterator<Item = (u64, RecordPtr)> {
        let fanout = FANOUT as u64;
        self.nodes
            .range(from / fanout..)
            .take_while(move |(node, _)| **node * fanout < before)
            .flat_map(move |(node, edits)| {
                edits
                    .iter()
                    .map(move |(index, ptr)| (node * fanout + index as u64, *ptr))
            })
            .filter(move |(slot, _)| (from..before).contains(slot))
    }

    /// The records that were put, without the slots that were emptied.
    pub(crate) fn records(&self) -> Vec<RecordPtr> {
        let all = self.nodes.values().flat_map(Edits::iter);
        all.map(|(_, ptr)| *ptr)
            .filter(|ptr| !ptr.is_empty())
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The changes, in the order of slots.
    pub(crate) fn edits(&self) -> Vec<(u64, &Edits)> {
        self.nodes
            .iter()
            .map(|(node, edits)| (*node, edits))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::records::pointer::{Addr, RecordIdentity, RecordLocation};
    use store::SegmentId;

    fn record(n: u32) -> RecordPtr {
        RecordPtr {
            place: RecordLocation::new(
                [Addr::new(SegmentId::new(0, n), 0, 4096), Addr::default()],
                1,
                [0; 16],
            ),
            identity: RecordIdentity::record([0; 24], [0; 16], 0, 0, 0, 1),
        }
    }

    #[test]
    fn holds_what_was_put_and_nothing_else() {
        let mut overlay = Overlay::default();
        assert_eq!(overlay.put(33, record(1)), None);
        assert_eq!(overlay.put(33, record(2)), Some(record(1)));
        assert_eq!(overlay.put(40, RecordPtr::EMPTY), None);
        assert_eq!(overlay.get(33), Some(record(2)));
        assert_eq!(overlay.get(40), Some(RecordPtr::EMPTY));
        assert_eq!(overlay.get(34), None);
        assert_eq!(overlay.get(1), None);
    }

    #[test]
    fn finds_the_next_change_in_a_range() {
        let mut overlay = Overlay::default();
        for slot in [5, 33, 100] {
            overlay.put(slot, record(slot as u32));
        }
        assert_eq!(overlay.next(0, 1000).unwrap().0, 5);
        assert_eq!(overlay.next(6, 1000).unwrap().0, 33);
        assert_eq!(overlay.next(33, 34).unwrap().0, 33);
        assert_eq!(overlay.next(34, 100), None);
        assert_eq!(overlay.next(34, 101).unwrap().0, 100);
        assert_eq!(overlay.next(101, 1000), None);
    }
}
