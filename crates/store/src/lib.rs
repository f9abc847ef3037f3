//! Where the bytes of a pool live.
//!
//! A [`Store`] offers a pool three kinds of place: *segments*, in which records lie and are never
//! overwritten while they are live; the *superblock*, which names the root of everything and is
//! replaced by each commit; and *key blocks*, a small area that is overwritten in place, so that a
//! replaced key is gone. [`DeviceStore`] keeps them on block devices.
//!
//! A store knows nothing of records, datasets or keys.

mod devices;
mod error;
mod geometry;
mod headers;
pub mod layout;
mod member;

pub use devices::{CreateOptions, DeviceStore, Found, probe};
pub use error::{Error, Result};

use std::io::IoSlice;

/// Records are placed in multiples of this many bytes, so that no two share a physical sector.
pub const UNIT: u32 = 4096;

/// A segment: a group of devices, and an index in it. Ordered and stored as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

impl SegmentId {
    /// The segment `index` of `group`.
    pub const fn new(group: u16, index: u32) -> SegmentId {
        SegmentId((group as u64) << 32 | index as u64)
    }

    /// Its group. Ids beyond the range of groups yield a group that does not exist.
    pub const fn group(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Its index in the group.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }
}

/// A device of a pool, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Which device.
    pub guid: u64,
    /// Its path.
    pub name: String,
    /// The group it belongs to.
    pub group: u16,
    /// Bytes that the pool uses of it.
    pub size: u64,
}

/// What was found in the headers of a pool's devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderCheck {
    /// Bytes read.
    pub examined: u64,
    /// Copies rewritten.
    pub repaired: u64,
    /// Blocks of which no copy is whole.
    pub lost: u64,
}

/// The places of a pool. Every backend passes the same conformance suite, `tests/conformance.rs`.
///
/// Nothing that is written is durable before [`Store::flush`] has returned, in whichever order it
/// was written.
pub trait Store: Send + Sync {
    /// The pool.
    fn pool_guid(&self) -> u64;

    /// Bytes in a segment: a power of two, at least 1 MiB.
    fn segment_size(&self) -> u32;

    /// How many segments each group holds.
    fn groups(&self) -> Vec<u32>;

    /// How many key blocks there are.
    fn key_blocks(&self) -> u32;

    /// The devices.
    fn members(&self) -> Vec<MemberInfo>;

    /// Fills `buf` from a place in a segment.
    fn read(&self, segment: SegmentId, offset: u32, buf: &mut [u8]) -> Result<()>;

    /// Writes the pieces one after the other at a place in a segment.
    fn write(&self, segment: SegmentId, offset: u32, pieces: &[IoSlice<'_>]) -> Result<()>;

    /// Says that a range of a segment is no longer needed.
    fn discard(&self, segment: SegmentId, offset: u32, len: u32) -> Result<()>;

    /// Makes everything written durable. After a failure nothing may be assumed of what was written
    /// since the last success.
    fn flush(&self) -> Result<()>;

    /// Replaces the superblock: whole, or not at all. Durable after the next flush.
    fn write_superblock(&self, txg: u64, payload: &[u8]) -> Result<()>;

    /// The superblocks that are whole, the newest first.
    fn superblocks(&self) -> Result<Vec<(u64, Vec<u8>)>>;

    /// The payload of a key block.
    fn read_key_block(&self, index: u32) -> Result<Vec<u8>>;

    /// Overwrites a key block, at most [`layout::PAYLOAD_MAX`] bytes. Not atomic.
    fn write_key_block(&self, index: u32, payload: &[u8]) -> Result<()>;

    /// Overwrites a key block with zeros, on every device.
    fn wipe_key_block(&self, index: u32) -> Result<()>;

    /// Whether a key block holds nothing but zeros on every device.
    fn key_block_is_blank(&self, index: u32) -> Result<bool>;

    /// Reads, in every copy on every device, the labels, the superblock of `txg`, and the key blocks
    /// named, and with `mend` rewrites bad ones from a whole one. Nothing else may write to the
    /// headers meanwhile.
    fn check_headers(&self, txg: u64, key_blocks: &[u32], mend: bool) -> Result<HeaderCheck>;

    /// Makes the devices ones that belong to no pool: labels, superblocks and key areas are written
    /// over with zeros, in every copy on every device.
    fn erase(&self) -> Result<()>;
}
