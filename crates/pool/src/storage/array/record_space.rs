//! Computes the space that records of an array take on the devices, from the sums in pointers to nodes.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::format::records::node::{ArrayNode, coverage};
use crate::format::records::pointer::RecordPtr;
use crate::storage::array::walk::check_root;

/// Reads the node at a pointer. It is the given number of levels above the records, and covers the slot. `None` if no
/// more nodes may be read.
pub(crate) type ReadNode<'a> =
    &'a mut dyn FnMut(&RecordPtr, u8, u64) -> Result<Option<Arc<ArrayNode>>>;

/// The units that the records in these slots take, with all copies and gang maps. The ranges ascend and do not overlap.
/// A node is read if a range begins or ends in it, or if its pointer has no sum.
pub(crate) fn stored(
    root: &RecordPtr,
    slots: &[Range<u64>],
    node: ReadNode<'_>,
) -> Result<Option<u64>> {
    check_root(root)?;
    debug_assert!(ascend(slots), "the ranges ascend and do not overlap");
    below(root, 0, slots, node)
}

fn below(
    ptr: &RecordPtr,
    first: u64,
    slots: &[Range<u64>],
    node: ReadNode<'_>,
) -> Result<Option<u64>> {
    let level = ptr.level();
    let end = first.saturating_add(coverage(level));
    let slots = overlapping(slots, first, end);
    let Some(range) = slots.first().filter(|_| !ptr.is_empty()) else {
        return Ok(Some(0));
    };
    // A node that lies in one range as a whole is not read: its pointer has the sum.
    let is_whole = range.start <= first && end <= range.end;
    if let Some(units) = ptr.stored().filter(|_| is_whole) {
        return Ok(Some(units));
    }
    let Some(found) = node(ptr, level, first)? else {
        return Ok(None);
    };
    let mut sum = 0u64;
    for (index, child) in found.children.iter().enumerate() {
        let child_first = first + index as u64 * coverage(level - 1);
        match below(child, child_first, slots, node)? {
            Some(units) => sum = sum.saturating_add(units),
            None => return Ok(None),
        }
    }
    Ok(Some(sum))
}

fn overlapping(slots: &[Range<u64>], first: u64, end: u64) -> &[Range<u64>] {
    let from = slots.partition_point(|range| range.end <= first);
    let to = slots.partition_point(|range| range.start < end);
    slots.get(from..to).unwrap_or_default()
}

/// Returns whether ranges ascend and do not overlap.
fn ascend(slots: &[Range<u64>]) -> bool {
    (slots.windows(2)).all(|pair| pair[0].end <= pair[1].start)
}

/// Returns these ranges without some of their slots. Both ascend.
pub(crate) fn without(slots: &[Range<u64>], except: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    debug_assert!(ascend(slots), "the ranges ascend and do not overlap");
    let mut left = Vec::with_capacity(slots.len());
    let mut except = except.peekable();
    for range in slots {
        let mut start = range.start;
        while except.next_if(|slot| *slot < start).is_some() {}
        while let Some(slot) = except.next_if(|slot| *slot < range.end) {
            if start < slot {
                left.push(start..slot);
            }
            start = slot + 1;
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // Lists of one range are meant.
mod tests {
    use super::*;
    use crate::format::records::pointer::{Addr, RecordIdentity, RecordLocation};
    use std::collections::HashMap;
    use store::{SegmentId, UNIT};

    /// An array in memory: a record of 1 to 7 units in each slot but every fifth.
    struct Array {
        nodes: HashMap<[u8; 24], Arc<ArrayNode>>,
        root: RecordPtr,
    }

    const SLOTS: u64 = 3000;

    fn units(slot: u64) -> u64 {
        if slot.is_multiple_of(5) {
            0
        } else {
            slot % 7 + 1
        }
    }

    fn pointer(units: u64, identity: RecordIdentity) -> RecordPtr {
        let addr = Addr::new(SegmentId::new(0, 1), 0, units as u32 * UNIT);
        RecordPtr {
            place: RecordLocation::new([addr, Addr::default()], 1, [0; 16]),
            identity,
        }
    }

    impl Array {
        /// `is_summed` says of which nodes the pointers have sums, by their level and first slot.
        fn new(is_summed: impl Fn(u8, u64) -> bool) -> Array {
            let record = |slot: u64| {
                let mut nonce = [0; 24];
                nonce[..8].copy_from_slice(&slot.to_le_bytes());
                match units(slot) {
                    0 => RecordPtr::EMPTY,
                    units => pointer(units, RecordIdentity::record(nonce, [0; 16], 0, 0, 0, 1)),
                }
            };
            let mut nodes = HashMap::new();
            let mut row: Vec<RecordPtr> = (0..SLOTS).map(record).collect();
            for level in 1..=3 {
                let above = |(number, children): (usize, &[RecordPtr])| {
                    let mut node = ArrayNode::empty();
                    node.children[..children.len()].copy_from_slice(children);
                    let mut ptr = pointer(1, node.identity(level));
                    let is_summed = is_summed(level, number as u64 * coverage(level));
                    ptr.place = ptr.place.with_stored(node.stored().filter(|_| is_summed));
                    nodes.insert(*ptr.identity.nonce(), Arc::new(node));
                    ptr
                };
                row = row.chunks(32).enumerate().map(above).collect();
            }
            let root = row[0];
            assert_eq!((row.len(), root.level()), (1, 3));
            Array { nodes, root }
        }

        /// The sum, and how many nodes were read for it.
        fn stored(&self, slots: &[Range<u64>]) -> (u64, usize) {
            let mut reads = 0;
            let sum = stored(&self.root, slots, &mut |ptr, _, _| {
                reads += 1;
                Ok(Some(Arc::clone(&self.nodes[ptr.identity.nonce()])))
            });
            (sum.unwrap().unwrap(), reads)
        }
    }

    fn expected(slots: &[Range<u64>]) -> u64 {
        let within = |range: &Range<u64>| range.start..range.end.min(SLOTS);
        slots.iter().flat_map(within).map(units).sum()
    }

    #[test]
    fn ranges_are_summed_and_only_their_edges_are_read() {
        let array = Array::new(|_, _| true);
        let old = Array::new(|_, _| false);
        let mixed = Array::new(|level, first| level == 1 && first.is_multiple_of(64));
        let cases: &[&[Range<u64>]] = &[
            &[],
            &[0..SLOTS],
            &[0..1 << 40],
            &[5000..6000],
            &[7..8],
            &[32..64],
            &[31..65],
            &[1..2, 3..4, 900..2100],
            &[0..1024, 1024..2048, 2999..3001],
            &[0..1, 1023..1025, 2048..4096],
        ];
        for slots in cases {
            for array in [&array, &old, &mixed] {
                assert_eq!(array.stored(slots).0, expected(slots), "{slots:?}");
            }
            let (_, reads) = array.stored(slots);
            assert!(reads <= 1 + 4 * slots.len(), "{slots:?} read {reads}");
        }
        assert_eq!(array.stored(&[0..1 << 15]).1, 0, "the root has the sum");
        assert_eq!(old.stored(&[0..SLOTS]).1, old.nodes.len());
    }

    #[test]
    fn it_gives_up_where_it_must_not_read_more() {
        let array = Array::new(|_, _| true);
        let mut refuse = |_: &RecordPtr, _, _| Ok(None);
        let whole = stored(&array.root, &[0..1 << 15], &mut refuse);
        assert_eq!(whole.unwrap(), Some(expected(&[0..SLOTS])));
        let part = stored(&array.root, &[0..1 << 14, 1 << 14..1 << 15], &mut refuse);
        assert_eq!(part.unwrap(), None);
    }

    #[test]
    fn slots_are_taken_out_of_ranges() {
        let without = |slots: &[Range<u64>], except: &[u64]| without(slots, except.iter().copied());
        assert_eq!(without(&[3..6, 8..10], &[]), [3..6, 8..10]);
        assert_eq!(without(&[3..6, 8..10], &[0, 3, 5, 6, 9, 12]), [4..5, 8..9]);
        assert_eq!(without(&[3..6, 8..10], &[3, 4, 5, 7]), [8..10]);
        assert_eq!(without(&[0..100], &[50]), [0..50, 51..100]);
    }
}
