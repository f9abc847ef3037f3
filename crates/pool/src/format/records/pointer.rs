//! The record pointer, and the node that holds them.
//!
//! A pointer has two halves. *Place* says where a record lies and may change without a key: healing,
//! moving and receiving rewrite it. *Identity* says what the record is and never changes without a
//! key: for a record it is what the seal produced, for a node it is the hash of its children's
//! identities. `docs/FORMAT.md` describes the same bytes.

use store::SegmentId;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::error::Error;

/// Slots of an array are numbered below this.
pub const SLOT_LIMIT: u64 = 1 << 56;

/// The most levels that an array of [`SLOT_LIMIT`] slots has.
pub(crate) const LEVEL_MAX: u8 = 12;

/// A record is no longer than this, on disk.
pub const RECORD_MAX: u32 = 1 << 20;

/// A run of bytes on a store. Empty if its size is 0.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(C)]
pub struct Addr {
    segment: U64,
    offset: U32,
    size: U32,
}

impl Addr {
    /// `size` bytes from `offset` of a segment.
    pub fn new(segment: SegmentId, offset: u32, size: u32) -> Addr {
        Addr {
            segment: segment.0.into(),
            offset: offset.into(),
            size: size.into(),
        }
    }

    /// The segment.
    pub fn segment(&self) -> SegmentId {
        SegmentId(self.segment.get())
    }

    /// The first byte in the segment.
    pub fn offset(&self) -> u32 {
        self.offset.get()
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> u32 {
        self.size.get()
    }

    /// Returns whether there is nothing here.
    pub fn is_empty(&self) -> bool {
        self.size.get() == 0
    }
}

/// The addresses of the copies of a record, and the time since when it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RecordLocation {
    /// The addresses of one or two copies; an empty address is no copy. All copies are equally long.
    pub addr: [Addr; 2],
    birth: U64,
    /// BLAKE3 of the bytes on disk, cut to 128 bits.
    pub checksum: [u8; 16],
    /// [`SCATTERED`], [`SHARED`] or 0.
    form: u8,
    /// The beginning of the map's checksum, or of a shared record's nonce; the [stored sum](RecordLocation::with_stored) of a
    /// node; else zeros.
    mark: [u8; 7],
}

/// The record lies in pieces, and the addresses are those of its gang map.
const SCATTERED: u8 = 1;
/// The record is in the dedup table, which knows how many pointers there are to it.
const SHARED: u8 = 2;

/// The identity of a record includes the hash of its bytes on disk: a part is in the identity, and the hash of the node
/// above covers the part in the place.
const CHECKED: u8 = 1;

/// The part of the checksum of a gang map that a place stores.
pub(crate) type GangMark = [u8; 7];

/// The part of the nonce of a shared record that a place stores.
pub(crate) type ShareMark = [u8; 7];

/// The key by which pointers find a shared record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShareId {
    /// The beginning of its nonce.
    pub(crate) mark: ShareMark,
    /// The address of the record.
    pub(crate) addr: Addr,
}

/// The identity of a record or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RecordIdentity {
    /// A record's nonce; the first 24 bytes of a node's hash.
    nonce: [u8; 24],
    /// A record's tag; the last 8 bytes of a node's hash, and 8 zeros.
    tag: [u8; 16],
    generation: U32,
    /// The suite that sealed a record; 0: none.
    pub suite: u8,
    /// The compression of the record, in the sealer's own numbers.
    pub compression: u8,
    /// 1: the hash of the bytes on disk is part of the identity of a record; otherwise 0.
    pub flags: u8,
    /// 0: a record. Otherwise a node, this many levels above the records.
    pub level: u8,
    logical_size: U32,
    /// The bytes 16 to 28 of the BLAKE3 of the bytes on disk, for a checked record; else zeros.
    check: [u8; 12],
}

/// A pointer to a record or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RecordPtr {
    /// The half of the pointer that says where and when.
    pub place: RecordLocation,
    /// The half of the pointer that says what the record is.
    pub identity: RecordIdentity,
}

const _: () = assert!(size_of::<Addr>() == 16);
const _: () = assert!(size_of::<RecordLocation>() == 64);
const _: () = assert!(size_of::<RecordIdentity>() == 64);
const _: () = assert!(size_of::<RecordPtr>() == 128);

impl RecordLocation {
    /// A place born in `birth`.
    pub(crate) fn new(addr: [Addr; 2], birth: u64, checksum: [u8; 16]) -> RecordLocation {
        RecordLocation {
            addr,
            birth: birth.into(),
            checksum,
            form: 0,
            mark: [0; 7],
        }
    }

    /// A place as a list keeps it, which leaves the checksum out.
    pub(crate) fn listed(
        addr: [Addr; 2],
        birth: u64,
        (form, mark): (u8, [u8; 7]),
    ) -> RecordLocation {
        RecordLocation {
            form,
            mark,
            ..RecordLocation::new(addr, birth, [0; 16])
        }
    }

    /// The data in a list besides addresses and birth.
    pub(crate) fn form(&self) -> (u8, [u8; 7]) {
        (self.form, self.mark)
    }

    /// The same place, of a record that others may point to as well.
    pub(crate) fn with_share_mark(mut self, mark: ShareMark) -> RecordLocation {
        (self.form, self.mark) = (SHARED, mark);
        self
    }

    /// The key of the record in the dedup table, if it is shared.
    pub(crate) fn share(&self) -> Option<ShareId> {
        (self.form == SHARED).then_some(ShareId {
            mark: self.mark,
            addr: self.addr[0],
        })
    }

    /// Returns whether others may point to the record as well.
    pub fn is_shared(&self) -> bool {
        self.form == SHARED
    }

    /// The same place, with its pieces listed in a map that has this mark.
    pub(crate) fn with_gang_mark(mut self, mark: Option<GangMark>) -> RecordLocation {
        self.form = if mark.is_some() { SCATTERED } else { 0 };
        self.mark = mark.unwrap_or_default();
        self
    }

    /// The mark of its gang map, if it has one.
    pub(crate) fn gang_mark(&self) -> Option<GangMark> {
        (self.form == SCATTERED).then_some(self.mark)
    }

    /// Returns whether it can be that of a record which lies in one piece and is not shared.
    pub(crate) fn is_plain(&self) -> bool {
        let ptr = RecordPtr {
            place: *self,
            identity: RecordIdentity::new_zeroed(),
        };
        self.form == 0 && !ptr.is_empty() && ptr.is_consistent()
    }

    /// The same place, for a node with records below that take `units`. With `None`, or a number that does not fit, the
    /// sum is unknown.
    pub(crate) fn with_stored(mut self, units: Option<u64>) -> RecordLocation {
        let units = units.filter(|units| *units < 1 << 56).unwrap_or(0);
        self.mark.copy_from_slice(&units.to_le_bytes()[..7]);
        self
    }

    /// Returns whether the record lies in pieces.
    pub fn is_gang(&self) -> bool {
        self.form == SCATTERED
    }

    /// The transaction group in which the record was put here.
    pub fn birth(&self) -> u64 {
        self.birth.get()
    }

    /// The copies there are.
    pub fn copies(&self) -> impl Iterator<Item = Addr> {
        self.addr.into_iter().filter(|addr| !addr.is_empty())
    }

    pub(crate) fn copy_numbers(&self) -> impl Iterator<Item = usize> {
        (0..self.addr.len()).filter(|copy| !self.addr[*copy].is_empty())
    }

    /// Bytes of one copy.
    pub fn disk_size(&self) -> u32 {
        self.addr[0].size()
    }

    /// Bytes of all copies, with their gang maps.
    pub fn allocated(&self) -> u64 {
        let map = if self.is_gang() { store::UNIT } else { 0 };
        self.copies()
            .map(|addr| u64::from(addr.size()) + u64::from(map))
            .sum()
    }

    /// Returns whether its form can be: only records of two units and more have a gang map, and only those with one
    /// copy are shared.
    fn form_is_consistent(&self, level: u8) -> bool {
        match self.form {
            0 => level > 0 || self.mark == [0; 7],
            SCATTERED => level == 0 && self.disk_size() > store::UNIT,
            SHARED => level == 0 && self.addr[1].is_empty(),
            _ => false,
        }
    }
}

impl RecordIdentity {
    /// The identity of a record, from its seal.
    pub fn record(
        nonce: [u8; 24],
        tag: [u8; 16],
        generation: u32,
        suite: u8,
        compression: u8,
        logical_size: u32,
    ) -> RecordIdentity {
        RecordIdentity {
            nonce,
            tag,
            generation: generation.into(),
            suite,
            compression,
            flags: 0,
            level: 0,
            logical_size: logical_size.into(),
            check: [0; 12],
        }
    }

    /// The identity of a node: its level and the hash of its children's identities.
    pub(crate) fn node(level: u8, hash: &[u8; 32]) -> RecordIdentity {
        let mut identity = RecordIdentity::new_zeroed();
        identity.level = level;
        identity.nonce.copy_from_slice(&hash[..24]);
        identity.tag[..8].copy_from_slice(&hash[24..]);
        identity
    }

    /// Returns whether it can be that of a record.
    pub(crate) fn is_of_record(&self) -> bool {
        let has_check = match self.flags {
            0 => self.check == [0; 12],
            CHECKED => self.suite != 0,
            _ => false,
        };
        self.level == 0 && has_check
    }

    /// The identity of a sealed record with the hash of its ciphertext. A tag alone names one ciphertext only to those
    /// who lack the data key. That of a clear record is a hash already.
    pub(crate) fn with_check(mut self, hash: &[u8; 32]) -> RecordIdentity {
        if self.suite != 0 {
            self.flags = CHECKED;
            self.check.copy_from_slice(&hash[16..28]);
        }
        self
    }

    /// Returns whether a node's hash covers the checksum in the place beside this identity.
    pub(crate) fn is_checked(&self) -> bool {
        self.level == 0 && self.flags & CHECKED != 0
    }

    /// Returns whether it can be that of a record whose bytes on disk have this hash.
    pub(crate) fn admits(&self, hash: &[u8; 32]) -> bool {
        !self.is_checked() || self.check == hash[16..28]
    }

    /// A record's nonce.
    pub fn nonce(&self) -> &[u8; 24] {
        &self.nonce
    }

    /// A record's authentication tag.
    pub fn tag(&self) -> &[u8; 16] {
        &self.tag
    }

    /// The generation of the keyring that sealed a record.
    pub fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// Bytes of a record before compression.
    pub fn logical_size(&self) -> u32 {
        self.logical_size.get()
    }
}

impl RecordPtr {
    /// The pointer to nothing.
    pub const EMPTY: RecordPtr = zerocopy::transmute!([0u8; 128]);

    /// Returns whether it points to nothing.
    pub fn is_empty(&self) -> bool {
        self.place.addr[0].is_empty()
    }

    /// The pointer to a sealed record with these bytes, with their hash.
    #[must_use]
    pub fn with_check(mut self, bytes: &[u8]) -> RecordPtr {
        let hash = blake3::hash(bytes);
        self.identity = self.identity.with_check(hash.as_bytes());
        self.place.checksum = checksum_of(hash.as_bytes());
        self
    }

    /// Returns whether its identity has a part of the hash of the bytes on disk.
    pub fn is_checked(&self) -> bool {
        self.identity.is_checked()
    }

    /// Returns whether these are the bytes on disk of the record, as far as this can be checked without a key. Of a
    /// checked record that is as far as anybody can.
    pub fn names(&self, bytes: &[u8]) -> bool {
        self.names_hash(blake3::hash(bytes).as_bytes())
    }

    /// Returns the same as [`RecordPtr::names`], for bytes with a known BLAKE3 hash.
    pub(crate) fn names_hash(&self, hash: &[u8; 32]) -> bool {
        hash[..16] == self.place.checksum && self.identity.admits(hash)
    }

    /// 0 for a record, more for a node.
    pub fn level(&self) -> u8 {
        self.identity.level
    }

    /// The units that the record, or all records below the node, take on the devices, with all copies and gang maps.
    /// `None` if an older program wrote the node without the sum.
    pub(crate) fn stored(&self) -> Option<u64> {
        if self.level() == 0 {
            return Some(self.place.allocated() / u64::from(store::UNIT));
        }
        let mut units = [0; 8];
        units[..7].copy_from_slice(&self.place.mark);
        Some(u64::from_le_bytes(units)).filter(|units| *units > 0)
    }

    /// Returns whether its parts agree: a pointer read from a damaged or hostile pool may say anything.
    pub(crate) fn is_consistent(&self) -> bool {
        let [first, second] = &self.place.addr;
        let size = first.size();
        if self.level() > 0 && size != store::UNIT {
            return false;
        }
        self.level() <= LEVEL_MAX
            && size.is_multiple_of(store::UNIT)
            && size <= RECORD_MAX
            && (second.is_empty() || second.size() == size)
            && self.place.form_is_consistent(self.level())
            && self
                .place
                .copies()
                .all(|a| a.offset().is_multiple_of(store::UNIT))
    }
}

impl Error {
    /// Makes the error for a record or node whose first copy at `addr` cannot be read.
    pub(crate) fn unreadable(what: &'static str, addr: &Addr, source: store::Error) -> Error {
        Error::Unreadable {
            what,
            group: addr.segment().group(),
            index: addr.segment().index(),
            offset: addr.offset(),
            source,
        }
    }

    /// Damage of something whose first copy is at `addr`.
    pub(crate) fn damaged(what: &'static str, addr: &Addr) -> Error {
        Error::Damaged {
            what,
            group: addr.segment().group(),
            index: addr.segment().index(),
            offset: addr.offset(),
        }
    }
}

/// BLAKE3, cut to the 128 bits that a pointer holds.
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 16] {
    checksum_of(blake3::hash(bytes).as_bytes())
}

/// The part of a BLAKE3 hash that a pointer holds as checksum.
pub(crate) fn checksum_of(hash: &[u8; 32]) -> [u8; 16] {
    let mut cut = [0; 16];
    cut.copy_from_slice(&hash[..16]);
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::records::node::{ArrayNode, coverage, level_for};

    fn pointer() -> RecordPtr {
        RecordPtr {
            place: RecordLocation::new(
                [
                    Addr::new(SegmentId::new(1, 2), 0x3000, 0x2000),
                    Addr::new(SegmentId::new(0, 5), 0, 0x2000),
                ],
                9,
                [0xcc; 16],
            ),
            identity: RecordIdentity::record([0x11; 24], [0x22; 16], 3, 1, 2, 8192),
        }
    }

    /// The bytes of format 1. They never change.
    #[test]
    fn golden_bytes() {
        let mut expected = Vec::new();
        expected.extend([2, 0, 0, 0, 1, 0, 0, 0, 0, 0x30, 0, 0, 0, 0x20, 0, 0]);
        expected.extend([5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0]);
        expected.extend([9, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0xcc; 16]);
        expected.extend([0; 8]);
        expected.extend([0x11; 24]);
        expected.extend([0x22; 16]);
        expected.extend([3, 0, 0, 0, 1, 2, 0, 0, 0, 0x20, 0, 0]);
        expected.extend([0; 12]);
        assert_eq!(pointer().as_bytes(), expected);
        let mut scattered = pointer();
        scattered.place = scattered.place.with_gang_mark(Some([0x77; 7]));
        expected[56..64].copy_from_slice(&[1, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77]);
        assert_eq!(scattered.as_bytes(), expected);
        assert!(scattered.is_consistent());
        assert_eq!(scattered.place.allocated(), 2 * (0x2000 + 0x1000));
    }

    #[test]
    fn a_nodes_identity_binds_identity_and_position_but_not_place() {
        let mut node = ArrayNode::empty();
        node.children[4] = pointer();
        let identity = node.identity(1);
        assert_ne!(identity, node.identity(2));

        let mut moved = node.clone();
        moved.children[4].place.addr[0] = Addr::new(SegmentId::new(0, 9), 0, 0x2000);
        moved.children[4].place.birth = 77.into();
        assert_eq!(identity, moved.identity(1));

        let mut swapped = node.clone();
        swapped.children.swap(4, 5);
        assert_ne!(identity, swapped.identity(1));

        for byte in 0..64 {
            let mut other = node.clone();
            other.children[4].identity.as_mut_bytes()[byte] ^= 1;
            assert_ne!(identity, other.identity(1), "byte {byte}");
        }
    }

    #[test]
    fn a_node_binds_the_checksum_of_a_checked_record_only() {
        let mut node = ArrayNode::empty();
        node.children[4] = pointer();
        let old = node.identity(1);
        node.children[4].place.checksum[15] ^= 1;
        assert_eq!(old, node.identity(1));

        let bytes = [7; 8192];
        let hash = blake3::hash(&bytes);
        let mut ptr = pointer();
        ptr.identity = ptr.identity.with_check(hash.as_bytes());
        ptr.place.checksum = checksum(&bytes);
        assert!(ptr.identity.is_of_record() && ptr.names(&bytes));
        node.children[4] = ptr;
        let checked = node.identity(1);
        assert_ne!(old, checked);
        for bit in 0..16 * 8 {
            node.children[4].place.checksum[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checked, node.identity(1), "bit {bit}");
            node.children[4].place.checksum[bit / 8] ^= 1 << (bit % 8);
        }
        for byte in 0..28 {
            let mut other = ptr;
            match byte {
                0..16 => other.place.checksum[byte] ^= 1,
                _ => other.identity.check[byte - 16] ^= 1,
            }
            assert!(!other.names(&bytes), "byte {byte}");
        }
        // The hash of a clear record is its tag.
        let clear = RecordIdentity::record([0; 24], [1; 16], 0, 0, 0, 4096);
        assert_eq!(clear.with_check(hash.as_bytes()), clear);
    }

    #[test]
    fn a_node_is_marked_with_the_sum_of_its_children_where_that_is_known() {
        let mut node = ArrayNode::empty();
        node.children[3] = pointer();
        node.children[30] = pointer();
        node.children[30].place = pointer().place.with_gang_mark(Some([0x77; 7]));
        assert_eq!(node.stored(), Some(4 + 6));

        let mut above = pointer();
        above.identity = node.identity(1);
        above
            .place
            .addr
            .iter_mut()
            .for_each(|a| a.size = store::UNIT.into());
        assert!(above.is_consistent());
        assert_eq!(above.stored(), None, "of an older program");
        above.place = above.place.with_stored(Some(0x0102_0304));
        assert_eq!(above.as_bytes()[56..64], [0, 4, 3, 2, 1, 0, 0, 0]);
        assert_eq!(above.stored(), Some(0x0102_0304));
        assert!(above.is_consistent());

        let mut higher = ArrayNode::empty();
        higher.children[0] = above;
        assert_eq!(higher.stored(), Some(0x0102_0304));
        higher.children[1] = above;
        higher.children[1].place = above.place.with_stored(None);
        assert_eq!(higher.stored(), None);
        higher.children[1].place = above.place.with_stored(Some((1 << 56) - 1));
        let sum = higher.stored().unwrap();
        assert_eq!(
            above.place.with_stored(Some(sum)),
            above.place.with_stored(None)
        );
    }

    #[test]
    fn levels_cover_slots() {
        assert_eq!(level_for(0), 1);
        assert_eq!(level_for(31), 1);
        assert_eq!(level_for(32), 2);
        assert_eq!(level_for(1023), 2);
        assert_eq!(level_for(1024), 3);
        assert_eq!(level_for(SLOT_LIMIT - 1), LEVEL_MAX);
        for level in 1..=LEVEL_MAX {
            assert_eq!(level_for(coverage(level) - 1), level);
        }
    }

    #[test]
    fn pointers_that_cannot_be_are_noticed() {
        assert!(pointer().is_consistent());
        let cases: [fn(&mut RecordPtr); 10] = [
            |p| p.place = p.place.with_share_mark([1; 7]),
            |p| p.identity.level = 1,
            |p| p.identity.level = 200,
            |p| p.place.addr[0].size = 100.into(),
            |p| p.place.addr[0].size = 0x8000_0000.into(),
            |p| p.place.addr[1].size = 0x1000.into(),
            |p| p.place.addr[0].offset = 5.into(),
            |p| p.place.form = 3,
            |p| p.place.mark[6] = 1,
            |p| {
                p.place.form = SCATTERED;
                p.place.addr.iter_mut().for_each(|a| a.size = 0x1000.into());
            },
        ];
        for (i, case) in cases.iter().enumerate() {
            let mut bad = pointer();
            case(&mut bad);
            assert!(!bad.is_consistent(), "case {i}");
        }
    }
}
