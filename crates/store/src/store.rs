//! What a pool asks of its store.

use std::io::IoSlice;
use std::sync::Arc;

use block::BlockDevice;

use crate::membership::{
    Assigned, Fault, HeaderCheck, Joins, MemberInfo, MemberState, NewMember, Newest,
};
use crate::parity::Parts;
use crate::segment::{SegmentId, UNIT};
use crate::shape::Shape;
use crate::{Error, Result};

/// The places of a pool. Every backend passes the same conformance suite, `tests/conformance.rs`.
///
/// Nothing that is written is durable before [`Store::flush`] has returned, in whichever order it
/// was written.
///
/// The members of a group hold the same, or each a column of a group with parity (see [`Shape`]). What
/// is written goes to all of them that are online or being resilvered; one that fails is not used any
/// more, which [`Store::take_faults`] tells, and the operation succeeds as long as enough online
/// members of the group have done it. What a member does not take that its group cannot do without is kept in
/// memory, and read from there: the write succeeds, and no flush does ([`Store::stall`], [`Store::retry`]).
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
    ///
    /// # Errors
    /// `Error::NoMember` if there is no such group, `Error::TooSmall` if a member is too small.
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
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    fn extend(&self, guid: u64, key_blocks: &[u32], superblock: (u64, &[u8])) -> Result<bool>;

    /// Overwrites the header that ended a device while the pool used so many bytes of it, and what a power cut
    /// left of [`Store::extend`] at its present end. Flushes.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    fn wipe_end(&self, guid: u64, size: u64) -> Result<()>;

    /// How a group lays out what it holds.
    fn shape(&self, group: u32) -> Shape;

    /// How many key blocks there are.
    fn key_blocks(&self) -> u32;

    /// The devices that are there, by group, then the spares.
    fn members(&self) -> Vec<MemberInfo>;

    /// Fills `buf` from a place in a segment, on whichever member can read it.
    ///
    /// # Errors
    /// The failure of the last way. What is read is not verified.
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
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, `Error::NoMember`, or the failure of a device.
    fn read_nth(&self, nth: usize, segment: SegmentId, offset: u32, buf: &mut [u8]) -> Result<()>;

    /// As [`Store::read_nth`], from stripes of one unit each.
    ///
    /// # Errors
    /// As [`Store::read_nth`].
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
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device.
    fn read_parts(
        &self,
        segment: SegmentId,
        offset: u32,
        len: usize,
        state: MemberState,
    ) -> Result<Parts>;

    /// Writes one member's part of a place that holds `whole`, unless the member has failed by now.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    fn write_part(&self, guid: u64, segment: SegmentId, offset: u32, whole: &[u8]) -> Result<()>;

    /// Counts a copy on a member that is not what it should be.
    fn count_damage(&self, guid: u64);

    /// Writes the pieces one after the other at a place in a segment, as one stripe.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device that the group cannot do without.
    fn write(&self, segment: SegmentId, offset: u32, pieces: &[IoSlice<'_>]) -> Result<()>;

    /// Writes stripes one after the other, each where what the one before it takes ends.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device that the group cannot do without.
    fn write_each(&self, segment: SegmentId, offset: u32, stripes: &[&[u8]]) -> Result<()>;

    /// Says that a range of a segment is no longer needed, parity included.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device that the group cannot do without.
    fn discard(&self, segment: SegmentId, offset: u32, len: u32) -> Result<()>;

    /// Makes everything written durable. After a failure nothing may be assumed of what was written
    /// since the last success.
    ///
    /// # Errors
    /// The failure of a device that a group cannot do without, also of an earlier flush.
    fn flush(&self) -> Result<()>;

    /// Makes durable what was written to the members of a group.
    ///
    /// # Errors
    /// As [`Store::flush`].
    fn flush_group(&self, group: u32) -> Result<()>;

    /// Why no flush would succeed: a device did not take what was written to a segment, and it is in memory only.
    fn stall(&self) -> Option<Error>;

    /// Has devices that failed and could not be done without take what they did not, and flushes all. True
    /// if a flush had failed: then only reading tells which writes since the last good one are there, and reads
    /// are of the medium. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// A device fails still. Nothing is forgotten.
    fn retry(&self) -> Result<bool>;

    /// Replaces the superblock: whole, or not at all. Durable after the next flush.
    ///
    /// # Errors
    /// `Error::Device` if a device fails that the pool cannot do without.
    fn write_superblock(&self, txg: u64, payload: &[u8]) -> Result<()>;

    /// Writes the newest superblock once more, to the members that are online, and flushes. Whoever wrote
    /// it may have ended before it was durable, or on all of them.
    ///
    /// # Errors
    /// `Error::Device` if a device fails that the pool cannot do without.
    fn confirm_superblock(&self, txg: u64, payload: &[u8]) -> Result<()>;

    /// The superblocks that are whole, the newest first.
    ///
    /// # Errors
    /// `Error::NoSuperblock` if none is whole, `Error::TooNew`, or the failure of a device.
    fn superblocks(&self) -> Result<Vec<(u64, Vec<u8>)>>;

    /// The newest superblock of each device, spares left out.
    fn newest_superblocks(&self) -> Vec<Newest>;

    /// The payload of a key block.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if no copy is whole, or there is no such block.
    fn read_key_block(&self, index: u32) -> Result<Vec<u8>>;

    /// Overwrites a key block, at most [`crate::layout::PAYLOAD_MAX`] bytes. Not atomic.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if there is no such block, or the failure of a device.
    fn write_key_block(&self, index: u32, payload: &[u8]) -> Result<()>;

    /// Overwrites a key block with zeros, on every device.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if there is no such block, or the failure of a device.
    fn wipe_key_block(&self, index: u32) -> Result<()>;

    /// Whether a key block holds nothing but zeros on every device.
    ///
    /// # Errors
    /// `Error::DamagedKeyBlock` if there is no such block. A device that cannot be read counts as not blank.
    fn key_block_is_blank(&self, index: u32) -> Result<bool>;

    /// Reads, in every copy on every device, the labels, the superblock of `txg`, and the key blocks
    /// named, and with `mend` rewrites bad ones from a whole one. Nothing else may write to the
    /// headers meanwhile.
    ///
    /// # Errors
    /// The failure of a device that cannot be read or written.
    fn check_headers(&self, txg: u64, key_blocks: &[u32], mend: bool) -> Result<HeaderCheck>;

    /// Makes the devices ones that belong to no pool: labels, superblocks and key areas are written
    /// over with zeros, in every copy on every device.
    ///
    /// # Errors
    /// The first failure of a device; the others are erased.
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
    ///
    /// # Errors
    /// `Error::InUse` unless `force`, `Error::TooSmall`, or the failure of the device.
    fn join(&self, device: &NewMember, joins: Joins) -> Result<MemberInfo>;

    /// Makes devices the members of a new group, all online, and returns its number. `parity` as in
    /// [`crate::NewGroup`]. It has no more than `segments_max` segments. As for [`Store::join`].
    ///
    /// # Errors
    /// As [`Store::join`].
    fn add_group(&self, devices: &[NewMember], parity: usize, segments_max: u32) -> Result<u16>;

    /// Makes a spare a member of a group, to hold this column of it, which is to be resilvered.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, `Error::NoMember` if there is no such group, or the failure of the device.
    fn enlist(&self, guid: u64, group: u16, column: u16) -> Result<()>;

    /// Makes a member a spare again.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    fn dismiss(&self, guid: u64) -> Result<()>;

    /// Takes back a device that was away. It is left alone until its state is set.
    ///
    /// # Errors
    /// `Error::Mismatch` if it is another device, or the failure of the device.
    fn take_back(&self, device: Arc<dyn BlockDevice>, guid: u64) -> Result<()>;

    /// Lets go of a member. With `erase` it belongs to no pool afterwards, as far as it can be
    /// written.
    ///
    /// # Errors
    /// The failure of the device when it is erased.
    fn let_go(&self, guid: u64, erase: bool) -> Result<()>;

    /// Brings labels and key area of a member up to date: the blocks named are as on the others, all
    /// others are overwritten with zeros. Flushes. Nothing else may write to the headers meanwhile.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    fn refresh_headers(&self, guid: u64, key_blocks: &[u32]) -> Result<()>;
}
