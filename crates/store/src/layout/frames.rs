//! The bytes that a store itself writes: labels, superblock frames, key blocks.
//!
//! Everything is little-endian, a multiple of 4 KiB, and ends in a BLAKE3 checksum of what precedes
//! it. `docs/FORMAT.md` describes the same bytes and the order in which they are written.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::layout::shape::Shape;

/// The format this program writes. It opens this and no newer one.
pub const FORMAT_VERSION: u32 = 1;

/// Every structure of a header is one block of this size; nothing on a device is smaller.
pub const BLOCK: usize = 4096;

/// Superblocks go round in a ring of this many blocks.
pub const RING_SLOTS: u32 = 32;

/// The payload of a superblock or key block is at most this long.
pub const PAYLOAD_MAX: usize = BLOCK - 32 - 32;

/// Every member of the group holds every segment whole.
pub const POLICY_WHOLE: u16 = 0;
/// The device waits to take the place of another one.
pub const POLICY_SPARE: u16 = 1;
/// The group of a device that is in none.
pub const NO_GROUP: u16 = u16::MAX;

const CHECKSUM: usize = 32;

/// No segment is smaller than the largest record.
const SEGMENT_MIN: u64 = 1 << 20;

/// Opens a label.
pub const LABEL_MAGIC: [u8; 8] = *b"STRGROOM";
/// Opens a superblock.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"SR-SUPER";
/// Opens a key block.
pub const KEY_BLOCK_MAGIC: [u8; 8] = *b"SR-KEYBL";
/// Opens the label of a cache device.
pub const CACHE_MAGIC: [u8; 8] = *b"SR-CACHE";
/// Opens the index of a cache device.
pub const CACHE_INDEX_MAGIC: [u8; 8] = *b"SR-CINDX";

/// The identity of a device. Written when the device joins the pool, twice: in the first block
/// of the device and in the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Label {
    /// [`LABEL_MAGIC`]
    pub magic: [u8; 8],
    /// [`FORMAT_VERSION`]
    pub version: U32,
    /// Bytes in a segment; a power of two.
    pub segment_size: U32,
    /// The pool.
    pub pool_guid: U64,
    /// The guid of the device.
    pub device_guid: U64,
    /// The group of devices that hold the same segments; [`NO_GROUP`] of a spare.
    pub group: U16,
    /// 0: the members of a group are alike, and the pool knows how many there are.
    pub member: U16,
    /// 1
    pub width: U16,
    /// The role in the group: [`POLICY_WHOLE`], or [`POLICY_SPARE`] if the device holds no segments.
    pub policy: U16,
    /// The number of segments of the group; with parity, multiplied by the number of its columns.
    pub segments: U32,
    /// Blocks in the key area.
    pub key_blocks: U32,
    /// Bytes before the first segment, and after the last.
    pub header_size: U64,
    /// Bytes of the device that the pool uses, a multiple of [`BLOCK`].
    pub device_size: U64,
    /// The time when the device joined, in seconds since 1970.
    pub created: U64,
    /// The column of the device in a group with parity.
    pub column: U16,
    /// The number of columns of the group; 0 without parity.
    pub columns: U16,
    /// The number of parity columns in a stripe.
    pub parity: U16,
    /// A [`PoolChange`].
    pub change: U16,
    /// The other pool that the device belonged to, or will belong to, while it changes; else 0.
    pub other_guid: U64,
    /// The commit that splits off the device; 0 if none does.
    pub since: U64,
    /// The name of the new pool of a device that is or was split off, filled with zeros; else zeros.
    pub new_name: [u8; NAME_BYTES],
}

/// The name of a pool in a label takes so many bytes.
const NAME_BYTES: usize = 256;

/// The change of the pool of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum PoolChange {
    /// No change.
    None = 0,
    /// The device is to be split off, and belongs to its pool until the commit that does it.
    Splitting = 1,
    /// The device was split off from another pool. Frames of that pool count.
    SplitOff = 2,
    /// The pool has got another guid. Frames with the old one count.
    Renumbered = 3,
}

/// The head of a superblock or key block; the payload follows it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FrameHead {
    /// The magic number of the kind of frame.
    pub magic: [u8; 8],
    /// The pool.
    pub pool_guid: U64,
    /// A superblock's transaction group; 0 in a key block.
    pub txg: U64,
    /// [`FORMAT_VERSION`]
    pub version: U32,
    /// Bytes of payload.
    pub len: U32,
}

const _: () = assert!(size_of::<Label>() == 352);
const _: () = assert!(size_of::<FrameHead>() == 32);
const _: () = assert!(PAYLOAD_MAX + size_of::<FrameHead>() + CHECKSUM == BLOCK);

/// The reason why a block is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The block is of another program.
    Foreign,
    /// The block is ours, and changed since it was written.
    Damaged,
    /// The block is ours, whole, and newer than this program.
    TooNew(u32),
    /// The block is ours and whole, and has impossible values.
    Inconsistent,
}

/// Writes the checksum into the end of a block.
fn seal(mut block: Box<[u8; BLOCK]>) -> Box<[u8; BLOCK]> {
    let sum = blake3::hash(&block[..BLOCK - CHECKSUM]);
    block[BLOCK - CHECKSUM..].copy_from_slice(sum.as_bytes());
    block
}

fn is_whole(block: &[u8; BLOCK]) -> bool {
    *blake3::hash(&block[..BLOCK - CHECKSUM]).as_bytes() == block[BLOCK - CHECKSUM..]
}

impl Label {
    /// The block that holds the label.
    pub fn encode(&self) -> Box<[u8; BLOCK]> {
        let mut block = Box::new([0; BLOCK]);
        block[..size_of::<Label>()].copy_from_slice(self.as_bytes());
        seal(block)
    }

    /// Reads a label and checks that its numbers agree with each other.
    ///
    /// # Errors
    /// Why the block is no label: [`Bad`].
    pub fn decode(block: &[u8; BLOCK]) -> Result<Label, Bad> {
        let (label, _) = Label::read_from_prefix(block).map_err(|_| Bad::Foreign)?;
        if label.magic != LABEL_MAGIC {
            return Err(Bad::Foreign);
        }
        if !is_whole(block) {
            return Err(Bad::Damaged);
        }
        if label.version.get() > FORMAT_VERSION {
            return Err(Bad::TooNew(label.version.get()));
        }
        if label.is_consistent() {
            Ok(label)
        } else {
            Err(Bad::Inconsistent)
        }
    }

    fn is_consistent(&self) -> bool {
        let segment = u64::from(self.segment_size.get());
        let segments = u64::from(self.segments.get());
        let header = self.header_size.get();
        let size = self.device_size.get();
        let needed = header_bytes(self.key_blocks.get());
        segment.is_power_of_two()
            && segment >= SEGMENT_MIN
            && size.is_multiple_of(BLOCK as u64)
            && header.is_multiple_of(BLOCK as u64)
            && header >= needed
            && segments > 0
            && self.width.get() == 1
            && self.member.get() == 0
            && self.has_known_policy()
            && self.has_possible_shape()
            && self.has_possible_change()
            && header
                .checked_mul(2)
                .and_then(|headers| headers.checked_add(segments.checked_mul(segment)?))
                .is_some_and(|total| total <= size)
    }

    fn has_known_policy(&self) -> bool {
        match self.policy.get() {
            POLICY_WHOLE => self.group.get() != NO_GROUP,
            POLICY_SPARE => self.group.get() == NO_GROUP,
            _ => false,
        }
    }

    fn has_possible_shape(&self) -> bool {
        let numbers = [self.column, self.columns, self.parity];
        let columns = u32::from(self.columns.get());
        numbers.iter().all(|n| n.get() == 0)
            || self.shape().has_parity()
                && !self.is_spare()
                && self.column < self.columns
                && self.segments.get().checked_mul(columns).is_some()
    }

    fn has_possible_change(&self) -> bool {
        let (other, since) = (self.other_guid.get(), self.since.get());
        let is_named = std::str::from_utf8(&self.new_name).is_ok() && self.new_name[0] != 0;
        let is_unnamed = self.new_name == [0; NAME_BYTES];
        let has_other = other != 0 && other != self.pool_guid.get();
        match self.change.get() {
            0 => other == 0 && since == 0 && is_unnamed,
            1 | 2 => has_other && since > 0 && is_named && !self.is_spare(),
            3 => has_other && since == 0 && is_unnamed,
            _ => false,
        }
    }

    /// Returns the change of the pool of the device.
    pub fn change(&self) -> PoolChange {
        match self.change.get() {
            1 => PoolChange::Splitting,
            2 => PoolChange::SplitOff,
            3 => PoolChange::Renumbered,
            _ => PoolChange::None,
        }
    }

    /// Returns whether frames of the other pool that the label names count too.
    pub(crate) fn takes_frames_of_other(&self) -> bool {
        matches!(self.change(), PoolChange::SplitOff | PoolChange::Renumbered)
    }

    pub(crate) fn set_change(&mut self, change: PoolChange, other_guid: u64) {
        self.change = (change as u16).into();
        self.other_guid = other_guid.into();
    }

    /// The same without a change under way.
    pub(crate) fn settled(&self) -> Label {
        Label {
            change: 0.into(),
            other_guid: 0.into(),
            since: 0.into(),
            new_name: [0; NAME_BYTES],
            ..*self
        }
    }

    /// The name of the new pool that the device is split off for.
    pub fn new_name(&self) -> String {
        let end = self.new_name.iter().position(|byte| *byte == 0);
        let name = &self.new_name[..end.unwrap_or(NAME_BYTES)];
        String::from_utf8_lossy(name).into_owned()
    }

    /// Says what the new pool is called, in at most 255 bytes.
    pub(crate) fn set_new_name(&mut self, name: &str) {
        let len = name.len().min(NAME_BYTES - 1);
        self.new_name = [0; NAME_BYTES];
        self.new_name[..len].copy_from_slice(&name.as_bytes()[..len]);
    }

    /// The label of a device for which nothing is said of shape and change.
    pub(crate) fn new() -> Label {
        Label {
            magic: LABEL_MAGIC,
            version: FORMAT_VERSION.into(),
            width: 1.into(),
            ..Label::new_zeroed()
        }
    }

    /// Returns the layout of the group.
    pub fn shape(&self) -> Shape {
        let (columns, parity) = (self.columns.get(), self.parity.get());
        Shape::new(columns.into(), parity.into()).unwrap_or(Shape::WHOLE)
    }

    /// Returns whether the device is a spare.
    pub fn is_spare(&self) -> bool {
        self.policy.get() == POLICY_SPARE
    }
}

/// The least space for a label, the ring and `key_blocks` key blocks.
pub fn header_bytes(key_blocks: u32) -> u64 {
    (1 + u64::from(RING_SLOTS) + u64::from(key_blocks)) * BLOCK as u64
}

/// Frames a payload, which is at most [`PAYLOAD_MAX`] bytes.
pub fn encode_frame(magic: [u8; 8], pool_guid: u64, txg: u64, payload: &[u8]) -> Box<[u8; BLOCK]> {
    assert!(payload.len() <= PAYLOAD_MAX, "the payload fits its block");
    let head = FrameHead {
        magic,
        pool_guid: pool_guid.into(),
        txg: txg.into(),
        version: FORMAT_VERSION.into(),
        len: (payload.len() as u32).into(),
    };
    let mut block = Box::new([0; BLOCK]);
    let start = size_of::<FrameHead>();
    block[..start].copy_from_slice(head.as_bytes());
    block[start..start + payload.len()].copy_from_slice(payload);
    seal(block)
}

/// The transaction group and the payload of a frame.
///
/// # Errors
/// Why the block is no such frame: [`Bad`].
pub fn decode_frame(
    magic: [u8; 8],
    pool_guid: u64,
    block: &[u8; BLOCK],
) -> Result<(u64, &[u8]), Bad> {
    let (head, rest) = FrameHead::read_from_prefix(block).map_err(|_| Bad::Foreign)?;
    if head.magic != magic {
        return Err(Bad::Foreign);
    }
    if !is_whole(block) {
        return Err(Bad::Damaged);
    }
    if head.version.get() > FORMAT_VERSION {
        return Err(Bad::TooNew(head.version.get()));
    }
    if head.pool_guid.get() != pool_guid {
        return Err(Bad::Foreign);
    }
    match rest.get(..head.len.get() as usize) {
        Some(payload) if payload.len() <= PAYLOAD_MAX => Ok((head.txg.get(), payload)),
        _ => Err(Bad::Inconsistent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> Label {
        Label {
            segment_size: (1 << 20).into(),
            pool_guid: 0x1122_3344_5566_7788.into(),
            device_guid: 0x99aa.into(),
            group: 2.into(),
            segments: 3.into(),
            key_blocks: 16.into(),
            header_size: (256 << 10).into(),
            device_size: (4 << 20).into(),
            created: 1_700_000_000.into(),
            ..Label::new()
        }
    }

    /// The bytes of format 1. They never change.
    #[test]
    fn golden_bytes() {
        let block = label().encode();
        let expected: [u8; 72] = [
            b'S', b'T', b'R', b'G', b'R', b'O', b'O', b'M', 1, 0, 0, 0, 0, 0, 0x10, 0, //
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xaa, 0x99, 0, 0, 0, 0, 0, 0, //
            2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 16, 0, 0, 0, //
            0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, //
            0x00, 0xf1, 0x53, 0x65, 0, 0, 0, 0,
        ];
        assert_eq!(block[..72], expected);
        assert!(block[72..BLOCK - 32].iter().all(|b| *b == 0));
        let sum = blake3::hash(&block[..BLOCK - 32]);
        assert_eq!(block[BLOCK - 32..], *sum.as_bytes());
        let frame = encode_frame(SUPERBLOCK_MAGIC, 5, 7, b"payload");
        assert_eq!(&frame[..8], b"SR-SUPER");
        assert_eq!(
            &frame[8..40],
            [
                5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, //
                b'p', b'a', b'y', b'l', b'o', b'a', b'd', 0,
            ]
        );
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let block = label().encode();
        assert_eq!(Label::decode(&block), Ok(label()));
        for bit in 0..BLOCK * 8 {
            let mut bad = block.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Label::decode(&bad).is_err(), "bit {bit}");
        }
        let frame = encode_frame(KEY_BLOCK_MAGIC, 5, 0, &[3; 100]);
        for bit in 0..BLOCK * 8 {
            let mut bad = frame.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_frame(KEY_BLOCK_MAGIC, 5, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn newer_formats_are_named() {
        let mut newer = label();
        newer.version = 9.into();
        assert_eq!(Label::decode(&newer.encode()), Err(Bad::TooNew(9)));
    }

    #[test]
    fn a_hostile_label_with_a_good_checksum_is_refused() {
        let cases: [fn(&mut Label); 21] = [
            |l| l.column = 1.into(),
            |l| l.columns = 3.into(),
            |l| (l.columns, l.parity) = (2.into(), 1.into()),
            |l| (l.columns, l.parity) = (5.into(), 4.into()),
            |l| (l.columns, l.parity, l.column) = (3.into(), 1.into(), 3.into()),
            |l| l.change = 1.into(),
            |l| l.change = 4.into(),
            |l| l.other_guid = 9.into(),
            |l| l.new_name[0] = 65,
            |l| (l.change, l.other_guid) = (3.into(), l.pool_guid),
            |l| (l.change, l.other_guid, l.new_name[0]) = (3.into(), 9.into(), 65),
            |l| (l.change, l.other_guid, l.new_name[0]) = (2.into(), 9.into(), 200),
            |l| l.segment_size = 4096.into(),
            |l| l.segment_size = 3000.into(),
            |l| l.segments = 0.into(),
            |l| l.segments = u32::MAX.into(),
            |l| l.key_blocks = u32::MAX.into(),
            |l| l.header_size = u64::MAX.into(),
            |l| l.device_size = 4097.into(),
            |l| l.policy = 7.into(),
            |l| l.policy = POLICY_SPARE.into(),
        ];
        for (i, break_it) in cases.iter().enumerate() {
            let mut bad = label();
            break_it(&mut bad);
            assert_eq!(
                Label::decode(&bad.encode()),
                Err(Bad::Inconsistent),
                "case {i}"
            );
        }
    }

    #[test]
    fn a_label_says_what_shape_its_group_has() {
        assert_eq!(label().shape(), Shape::WHOLE);
        let mut column = label();
        (column.columns, column.parity, column.column) = (6.into(), 2.into(), 5.into());
        let read = Label::decode(&column.encode()).unwrap();
        assert_eq!(read.shape(), Shape::new(6, 2).unwrap());
        assert_eq!(column.encode()[72..80], [5, 0, 6, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn frames_belong_to_one_pool() {
        let frame = encode_frame(SUPERBLOCK_MAGIC, 5, 7, b"payload");
        assert_eq!(
            decode_frame(SUPERBLOCK_MAGIC, 5, &frame),
            Ok((7, &b"payload"[..]))
        );
        assert_eq!(decode_frame(SUPERBLOCK_MAGIC, 6, &frame), Err(Bad::Foreign));
        assert_eq!(decode_frame(KEY_BLOCK_MAGIC, 5, &frame), Err(Bad::Foreign));
    }
}
