//! A node: the pointers of an array, or of its lower nodes; and which slots nodes cover.

use store::UNIT;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::format::records::pointer::{RecordIdentity, RecordPtr};

/// Pointers to a node.
pub const FANOUT: usize = 32;

/// Returns the number of slots that a node of this level covers.
pub(crate) fn coverage(level: u8) -> u64 {
    1u64.checked_shl(5 * u32::from(level)).unwrap_or(u64::MAX)
}

/// The level of the lowest root that covers a slot.
pub(crate) fn level_for(slot: u64) -> u8 {
    let bits = (u64::BITS - slot.leading_zeros()).max(1);
    bits.div_ceil(5) as u8
}

/// A node: the pointers of an array, or of its lower nodes. On disk exactly as in memory.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct ArrayNode {
    /// In order of their slots.
    pub children: [RecordPtr; FANOUT],
}

impl ArrayNode {
    /// A node of empty pointers.
    pub(crate) fn empty() -> ArrayNode {
        ArrayNode::new_zeroed()
    }

    /// Returns whether nothing hangs below.
    pub(crate) fn is_empty(&self) -> bool {
        self.children.iter().all(RecordPtr::is_empty)
    }

    /// Returns whether its children can be those of a node of this level. A hash does not bind places. So a child with
    /// an identity but without a place is not a hole: someone without the key has removed the place.
    pub(crate) fn is_consistent(&self, level: u8) -> bool {
        self.children.iter().all(|child| match child.is_empty() {
            true => *child == RecordPtr::EMPTY,
            false => child.level() == level - 1 && child.is_consistent(),
        })
    }

    /// The units that all records below take, with copies and gang maps. `None` if a child does not say.
    pub(crate) fn stored(&self) -> Option<u64> {
        let mut children = self.children.iter();
        children.try_fold(0u64, |sum, child| Some(sum.saturating_add(child.stored()?)))
    }

    /// The identity of this node at a level: it binds what each child is, and in which position. Of a checked record
    /// that includes the checksum, which is in the place because every reader of places uses it.
    pub(crate) fn identity(&self, level: u8) -> RecordIdentity {
        const IDENTITIES: usize = FANOUT * 64;
        let mut text = [0; IDENTITIES + 1 + FANOUT * 16];
        for (child, piece) in self.children.iter().zip(text.chunks_exact_mut(64)) {
            piece.copy_from_slice(child.identity.as_bytes());
        }
        text[IDENTITIES] = level;
        let mut len = IDENTITIES + 1;
        for child in &self.children {
            if child.identity.is_checked() {
                text[len..len + 16].copy_from_slice(&child.place.checksum);
                len += 16;
            }
        }
        RecordIdentity::node(level, blake3::hash(&text[..len]).as_bytes())
    }
}

const _: () = assert!(size_of::<ArrayNode>() == UNIT as usize);

/// A node is kept twice.
pub(crate) const NODE_BYTES: u64 = 2 * UNIT as u64;

/// Returns how many nodes of an array of `height` levels are above the lowest node `leaf`, up to one that is also above
/// one of `others`.
pub(crate) fn nodes_above(leaf: u64, height: u8, others: &[u64]) -> u64 {
    let height = height.max(level_for(leaf.saturating_mul(FANOUT as u64)));
    let is_shared = |level: u8| {
        let shift = 5 * u32::from(level - 1);
        others.iter().any(|other| other >> shift == leaf >> shift)
    };
    (1..=height).take_while(|level| !is_shared(*level)).count() as u64
}

/// Returns the number of the child of a node of this level that leads to a slot.
pub(crate) fn child_index(slot: u64, level: u8) -> usize {
    (slot >> (5 * u32::from(level - 1))) as usize % FANOUT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::records::pointer::{Addr, RecordLocation};
    use store::SegmentId;

    #[test]
    fn a_child_without_a_place_is_no_hole() {
        let addr = Addr::new(SegmentId::new(0, 1), 0, UNIT);
        let mut node = ArrayNode::empty();
        node.children[3] = RecordPtr {
            place: RecordLocation::new([addr, Addr::default()], 1, [0; 16]),
            identity: RecordIdentity::record([1; 24], [2; 16], 1, 1, 0, 4096),
        };
        assert!(node.is_consistent(1));
        let identity = node.identity(1);
        node.children[3].place = RecordPtr::EMPTY.place;
        assert!(identity == node.identity(1));
        assert!(!node.is_consistent(1));
        node.children[3] = RecordPtr::EMPTY;
        assert!(node.is_consistent(1));
    }

    #[test]
    fn nodes_are_counted_once() {
        assert_eq!(nodes_above(0, 1, &[]), 1);
        assert_eq!(nodes_above(0, 4, &[]), 4);
        assert_eq!(nodes_above(40, 1, &[]), 3, "its slot asks for three levels");
        assert_eq!(
            nodes_above(33, 4, &[32]),
            1,
            "a sibling: the rest is shared"
        );
        assert_eq!(nodes_above(33, 4, &[31]), 2);
        assert_eq!(nodes_above(33, 4, &[0, 34]), 1);
        assert_eq!(nodes_above(33, 4, &[33]), 0);
    }
}
