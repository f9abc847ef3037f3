//! Where the bytes of a pool live.
//!
//! A [`Store`] offers a pool three kinds of place: *segments*, in which records lie and are never
//! overwritten while they are live; the *superblock*, which names the root of everything and is
//! replaced by each commit; and *key blocks*, a small area that is overwritten in place, so that a
//! replaced key is gone. [`DeviceStore`] keeps them on block devices.
//!
//! A store knows nothing of records, datasets or keys.

mod cache;
mod code;
mod devices;
mod error;
mod extend;
mod geometry;
mod group;
mod headers;
mod io;
pub mod layout;
mod member;
mod parity;
mod shape;

pub use block::BlockDevice;
pub use cache::CacheRange;
pub use devices::{CreateOptions, DeviceStore, Found, NewGroup, probe};
pub use error::{Error, Result};
pub use parity::Parts;
pub use shape::{COLUMNS_MAX, COLUMNS_MIN, Shape};

use std::io::IoSlice;
use std::sync::Arc;

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

/// What a device of a pool is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberState {
    /// It holds everything that its group does.
    Online = 0,
    /// It gets what is written, and lacks some of what was written before.
    Resilvering = 1,
    /// It failed. It is neither written nor read.
    Faulted = 2,
    /// Somebody wants it left alone.
    Offline = 3,
}

impl MemberState {
    fn from_number(number: u8) -> MemberState {
        match number {
            0 => MemberState::Online,
            1 => MemberState::Resilvering,
            2 => MemberState::Faulted,
            _ => MemberState::Offline,
        }
    }
}

/// How often a device failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Copies that were not what they should be.
    pub checksum: u64,
}

/// A device of a pool that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Which device.
    pub guid: u64,
    /// Its path.
    pub name: String,
    /// The group it belongs to, by its label.
    pub group: u16,
    /// Which column of a group with parity it holds; else 0.
    pub column: u16,
    /// Bytes that the pool uses of it.
    pub size: u64,
    /// Bytes that it has, as of [`Store::refresh_sizes`].
    pub present: u64,
    /// How many segments there is room for in the bytes that the pool uses.
    pub room: u32,
    /// How many there would be room for after [`Store::extend`].
    pub room_extended: u32,
    /// Whether it is labelled as a spare.
    pub is_spare: bool,
    /// What it is good for.
    pub state: MemberState,
    /// How often it failed.
    pub errors: ErrorCounts,
}

/// The newest superblock of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Which device.
    pub guid: u64,
    /// Its path.
    pub name: String,
    /// The superblock, if one is whole.
    pub superblock: Option<(u64, Vec<u8>)>,
}

/// A device that failed and is not used any more.
#[derive(Debug)]
pub struct Fault {
    /// Which device.
    pub guid: u64,
    /// Its path.
    pub name: String,
    /// What failed.
    pub error: Error,
}

/// What a device is, as the pool says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Which device.
    pub guid: u64,
    /// What it is good for.
    pub state: MemberState,
    /// How often it failed before.
    pub errors: ErrorCounts,
}

/// Where a device joins a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// As one more member of a group.
    Group {
        /// Which group.
        group: u16,
        /// Which of its columns it is to hold; 0 without parity.
        column: u16,
    },
    /// As a spare.
    Spares,
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
///
/// The members of a group hold the same, or each a column of a group with parity (see [`Shape`]). What
/// is written goes to all of them that are online or being resilvered; one that fails is not used any
/// more, which [`Store::take_faults`] tells, and the operation succeeds as long as enough online
/// members of the group have done it.
///
/// A place is the beginning of a stripe, with the bytes that were written there at once. In a group
/// without parity any part of it can be read and written too; in one with parity only
/// [`Store::write_each`] and [`Store::read_units`] allow for that, for what is written unit by unit.
pub trait Store: Send + Sync {
    /// The pool.
    fn pool_guid(&self) -> u64;

    /// Bytes in a segment: a power of two, at least 1 MiB.
    fn segment_size(&self) -> u32;

    /// How many segments each group holds, parity included.
    fn groups(&self) -> Vec<u32>;

    /// Says how many segments a group has, parity included. Each of its members must have room for its part.
    fn set_segments(&self, group: u16, segments: u32) -> Result<()>;

    /// How many segments a device of so many bytes has room for.
    fn room_for(&self, size: u64) -> u32;

    /// Looks how large the devices are now.
    fn refresh_sizes(&self);

    /// Has the pool use all of a device that became larger: the header at its end moves to its new end. It
    /// gets the key blocks named and the newest superblock. Durable when this returns; a power cut leaves
    /// the old size or the new one. False if too little is gained. Nothing else may write to the headers
    /// meanwhile.
    ///
    /// The old header at the end is left to [`Store::wipe_end`].
    fn extend(&self, guid: u64, key_blocks: &[u32], superblock: (u64, &[u8])) -> Result<bool>;

    /// Overwrites the header that ended a device while the pool used so many bytes of it, and what a power cut
    /// left of [`Store::extend`] at its present end. Flushes.
    fn wipe_end(&self, guid: u64, size: u64) -> Result<()>;

    /// How a group lays out what it holds.
    fn shape(&self, group: u32) -> Shape;

    /// How many key blocks there are.
    fn key_blocks(&self) -> u32;

    /// The devices that are there, by group, then the spares.
    fn members(&self) -> Vec<MemberInfo>;

    /// Fills `buf` from a place in a segment, on whichever member can read it.
    fn read(&self, segment: SegmentId, offset: u32, buf: &mut [u8]) -> Result<()> {
        let mut result = self.read_nth(0, segment, offset, buf);
        for nth in 1..self.width(segment.group()) {
            if result.is_ok() {
                break;
            }
            result = self.read_nth(nth, segment, offset, buf);
        }
        result
    }

    /// In how many ways a place in a group can be read: from each member, or without different columns.
    fn width(&self, group: u32) -> usize;

    /// Fills `buf` from a place in one of these ways, in the order of preference that this place has.
    /// `nth` is taken modulo their number.
    fn read_nth(&self, nth: usize, segment: SegmentId, offset: u32, buf: &mut [u8]) -> Result<()>;

    /// As [`Store::read_nth`], from stripes of one unit each.
    fn read_units(
        &self,
        nth: usize,
        segment: SegmentId,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<()> {
        let step = self.shape(segment.group()).cell() * UNIT;
        if step == UNIT {
            return self.read_nth(nth, segment, offset, buf);
        }
        let mut units = buf.chunks_mut(UNIT as usize).zip(0..);
        units.try_for_each(|(unit, n)| self.read_nth(nth, segment, offset + n * step, unit))
    }

    /// The members that can be read and hold a part of a place of `len` bytes: online ones first.
    fn holders(&self, segment: SegmentId, offset: u32, len: usize) -> Vec<(u64, MemberState)>;

    /// Reads what the members in a state hold of a place of `len` bytes.
    fn read_parts(
        &self,
        segment: SegmentId,
        offset: u32,
        len: usize,
        state: MemberState,
    ) -> Result<Parts>;

    /// Writes one member's part of a place that holds `whole`, unless the member has failed by now.
    fn write_part(&self, guid: u64, segment: SegmentId, offset: u32, whole: &[u8]) -> Result<()>;

    /// Counts a copy on a member that is not what it should be.
    fn count_damage(&self, guid: u64);

    /// Writes the pieces one after the other at a place in a segment, as one stripe.
    fn write(&self, segment: SegmentId, offset: u32, pieces: &[IoSlice<'_>]) -> Result<()>;

    /// Writes stripes one after the other, each where what the one before it takes ends.
    fn write_each(&self, segment: SegmentId, offset: u32, stripes: &[&[u8]]) -> Result<()>;

    /// Says that a range of a segment is no longer needed, parity included.
    fn discard(&self, segment: SegmentId, offset: u32, len: u32) -> Result<()>;

    /// Makes everything written durable. After a failure nothing may be assumed of what was written
    /// since the last success.
    fn flush(&self) -> Result<()>;

    /// Makes durable what was written to the members of a group.
    fn flush_group(&self, group: u32) -> Result<()>;

    /// Replaces the superblock: whole, or not at all. Durable after the next flush.
    fn write_superblock(&self, txg: u64, payload: &[u8]) -> Result<()>;

    /// Writes the newest superblock once more, to the members that are online, and flushes. Whoever wrote
    /// it may have ended before it was durable, or on all of them.
    fn confirm_superblock(&self, txg: u64, payload: &[u8]) -> Result<()>;

    /// The superblocks that are whole, the newest first.
    fn superblocks(&self) -> Result<Vec<(u64, Vec<u8>)>>;

    /// The newest superblock of each device, spares left out.
    fn newest_superblocks(&self) -> Vec<Newest>;

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

    /// The members that have failed since this was asked last.
    fn take_faults(&self) -> Vec<Fault>;

    /// Says which devices belong to the pool, and what they are good for. Others are let go of.
    fn assign(&self, devices: &[Assigned]);

    /// Says that the pool can do without a group, so that the failure of its last member is none of an
    /// operation's: it is written to as long as it [works](Store::works). It has so many segments, also
    /// while none of its members is there.
    fn make_dispensable(&self, group: u16, segments: u32);

    /// Whether a group has members that hold everything together.
    fn works(&self, group: u32) -> bool;

    /// Whether the way to read that is `nth` trusts only members that hold everything.
    fn is_trusted(&self, group: u32, nth: usize) -> bool;

    /// Says what a member is good for from now on.
    fn set_state(&self, guid: u64, state: MemberState);

    /// Forgets how often the members failed; of all, or of one.
    fn clear_errors(&self, guid: Option<u64>);

    /// Makes a device a spare, or a member of a group that is to be resilvered. It is emptied and
    /// labelled, which is durable when this returns. What it holds is refused unless `force`.
    fn join(&self, device: &NewMember, joins: Joins) -> Result<MemberInfo>;

    /// Makes devices the members of a new group, all online, and returns its number. `parity` as in
    /// [`NewGroup`]. It has no more than `segments_max` segments. As for [`Store::join`].
    fn add_group(&self, devices: &[NewMember], parity: usize, segments_max: u32) -> Result<u16>;

    /// Makes a spare a member of a group, to hold this column of it, which is to be resilvered.
    fn enlist(&self, guid: u64, group: u16, column: u16) -> Result<()>;

    /// Makes a member a spare again.
    fn dismiss(&self, guid: u64) -> Result<()>;

    /// Takes back a device that was away. It is left alone until its state is set.
    fn take_back(&self, device: Arc<dyn BlockDevice>, guid: u64) -> Result<()>;

    /// Lets go of a member. With `erase` it belongs to no pool afterwards, as far as it can be
    /// written.
    fn let_go(&self, guid: u64, erase: bool) -> Result<()>;

    /// Brings labels and key area of a member up to date: the blocks named are as on the others, all
    /// others are overwritten with zeros. Flushes. Nothing else may write to the headers meanwhile.
    fn refresh_headers(&self, guid: u64, key_blocks: &[u32]) -> Result<()>;
}

/// A device that is to join a pool.
pub struct NewMember {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Names it for ever.
    pub guid: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// Overwrite what it holds.
    pub force: bool,
}
