//! Reading and writing the places of a pool.

use std::borrow::Cow;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use block::IoMode;

use crate::group::batch::{self, MemberBatch};
use crate::group::member::{Member, MemberFailure};
use crate::group::mirror::{self, Group, StoreLayout};
use crate::group::parity::part_of;
use crate::store::devices::Store;
use crate::{ColumnParts, Error, MemberState, Result, SegmentId, UNIT};

/// A pattern is written in pieces of so many bytes.
const FILL: u64 = 1 << 20;
/// Each device has the time of a write to discard so many bytes.
const DISCARD: u64 = 64 << 20;

/// A range of a device, where it begins and how long it is, and bytes for it.
type DeviceWrite = (u64, u64, Arc<[u8]>);

impl Store {
    /// Fills `buf` from a place in a segment, on whichever member can read it.
    ///
    /// # Errors
    /// The failure of the last way. What is read is not verified.
    pub fn read(&self, segment: SegmentId, offset: u32, buf: &mut [u8]) -> Result<()> {
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
    pub fn width(&self, group: u32) -> usize {
        self.groups.now().group(group).width()
    }

    /// Fills `buf` from a place in one of these ways, in the order of preference that this place has.
    /// `nth` is taken modulo their number.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, `Error::NoMember`, or the failure of a device.
    pub fn read_nth(
        &self,
        nth: usize,
        segment: SegmentId,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<()> {
        let layout = self.groups.now();
        let group = layout.group_at(segment, offset, buf.len())?;
        let none = Error::NoMember {
            group: segment.group(),
        };
        if group.shape().has_parity() {
            let way = group.way(nth).ok_or(none)?;
            return group.read_way(way, segment, offset, buf, Member::read);
        }
        let member = group.nth_reader(nth, segment, offset).ok_or(none)?;
        member.read(mirror::at(member, segment, offset), buf)
    }

    /// Fills `buf` from a place, in the way that answers first. A device that takes much longer than usual is done
    /// without, if the others have the data. False if that is not the first of the ways of [`Store::read_nth`].
    ///
    /// # Errors
    /// As [`Store::read_nth`].
    pub fn read_soon(&self, segment: SegmentId, offset: u32, buf: &mut [u8]) -> (bool, Result<()>) {
        let layout = self.groups.now();
        let group = match layout.group_at(segment, offset, buf.len()) {
            Ok(group) => group,
            Err(error) => return (true, Err(error)),
        };
        // Each way that is given up leaves one device less.
        for round in 0..group.members.len() {
            match group.read_prompt(segment, offset, buf) {
                Some((_, Err(Error::Unanswered { .. }))) => {}
                Some((is_first, read)) => return (round == 0 && is_first, read),
                None => break,
            }
        }
        // All are slow, or less is left than is needed: the first answer counts.
        let any = match group.shape().has_parity() || group.members_online() < 2 {
            true => None,
            false => group.read_any(segment, offset, buf),
        };
        match any {
            Some(read) => (false, read),
            None => (true, self.read_nth(0, segment, offset, buf)),
        }
    }

    /// Does the same as [`Store::read_nth`], from stripes of one unit each.
    ///
    /// # Errors
    /// As [`Store::read_nth`].
    pub fn read_units(
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
    pub fn holders(&self, segment: SegmentId, offset: u32, len: usize) -> Vec<(u64, MemberState)> {
        let layout = self.groups.now();
        let group = layout.group(segment.group());
        let stripe = group.stripe(segment, offset, len);
        let holds = |member: &&Arc<Member>| {
            let mut parts = stripe.parts.iter();
            parts.any(|part| part.column == member.column())
        };
        let holders = group.readers().filter(holds);
        holders
            .map(|member| (member.guid(), member.state()))
            .collect()
    }

    /// Reads what the members in a state hold of a place of `len` bytes.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device.
    pub fn read_parts(
        &self,
        segment: SegmentId,
        offset: u32,
        len: usize,
        state: MemberState,
    ) -> Result<ColumnParts> {
        let layout = self.groups.now();
        let group = layout.group_at(segment, offset, len)?;
        let groups = (&self.groups, &*layout);
        Ok(ColumnParts::read(
            groups,
            group,
            (segment, offset),
            len,
            state,
        ))
    }

    /// Writes one member's part of a place that holds `whole`, unless the member has failed by now.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    pub fn write_part(
        &self,
        guid: u64,
        segment: SegmentId,
        offset: u32,
        whole: &[u8],
    ) -> Result<()> {
        let layout = self.groups.now();
        let group = layout.group_at(segment, offset, whole.len())?;
        let member = group.members.iter().find(|member| member.guid() == guid);
        let member = member.ok_or(Error::NoSuchMember { guid })?;
        let Some((at, bytes)) = part_of(group, member, segment, offset, whole) else {
            return Ok(());
        };
        if !member.is_active() {
            return Ok(());
        }
        let one = std::iter::once(member);
        let task = (at, bytes.into_owned());
        self.groups
            .on_members(&layout, one, task, |member, (at, bytes)| {
                member.write(*at, &[IoSlice::new(bytes)])
            })
    }

    /// Counts a copy on a member that is not what it should be.
    pub fn count_damage(&self, guid: u64) {
        if let Some(member) = self.groups.now().find(guid) {
            member.count(MemberFailure::Checksum);
        }
    }

    /// Writes the pieces one after the other at a place in a segment, as one stripe.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device that the group cannot do without.
    pub fn write(&self, segment: SegmentId, offset: u32, pieces: &[IoSlice<'_>]) -> Result<()> {
        let len = pieces.iter().map(|p| p.len()).sum();
        let layout = self.groups.now();
        let group = layout.group_at(segment, offset, len)?;
        if group.shape().has_parity() {
            let whole = match pieces {
                [only] => Cow::Borrowed(&only[..]),
                _ => Cow::Owned(pieces.iter().flat_map(|p| p.iter().copied()).collect()),
            };
            self.write_stripes(&layout, group, (segment, offset), &[&whole]);
            return Ok(());
        }
        let members = group.members.iter().filter(|member| member.is_active());
        if batch::is_worthwhile(&layout, &group.members) {
            let bytes = batch::bytes_of(pieces);
            let write = |member: &Arc<Member>| (mirror::at(member, segment, offset), bytes.clone());
            let batches = members.map(|m| Arc::new(MemberBatch::new(m, vec![write(m)])));
            let batches: Vec<Arc<MemberBatch>> = batches.collect();
            self.groups.write_batches(&layout, &batches);
            return Ok(());
        }
        for member in members {
            let at = mirror::at(member, segment, offset);
            self.groups.write(&layout, member, at, pieces);
        }
        Ok(())
    }

    /// Writes bytes, and returns when they are durable, whatever else was written. False, and nothing is done, where a flush
    /// does not take longer: on files and disks, and in groups of several devices.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn write_durably(&self, segment: SegmentId, offset: u32, bytes: &[u8]) -> Result<bool> {
        let layout = self.groups.now();
        let group = layout.group_at(segment, offset, bytes.len())?;
        let [only] = group.members.as_slice() else {
            return Ok(false);
        };
        let is_alone = only.is_active() && !only.is_stalled() && only.device.waits_on_write();
        if !is_alone || group.shape().has_parity() {
            return Ok(false);
        }
        let written = only.write_durably(mirror::at(only, segment, offset), bytes);
        written.inspect_err(|error| {
            self.groups.note_taken(error);
        })?;
        Ok(true)
    }

    /// Writes stripes one after the other, each where what the one before it takes ends.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device that the group cannot do without.
    pub fn write_each(&self, segment: SegmentId, offset: u32, stripes: &[&[u8]]) -> Result<()> {
        let layout = self.groups.now();
        let group = layout.group(segment.group());
        if !group.shape().has_parity() {
            let pieces: Vec<IoSlice<'_>> = stripes.iter().map(|s| IoSlice::new(s)).collect();
            return self.write(segment, offset, &pieces);
        }
        group.check_place(segment, offset, stripes.iter().map(|s| s.len()))?;
        self.write_stripes(&layout, group, (segment, offset), stripes);
        Ok(())
    }

    /// Sets how long a device may take for a write or a flush that the pool can do without.
    pub fn set_deadline(&self, deadline: Duration) {
        self.groups.set_deadline(deadline);
    }

    /// See [`Store::set_deadline`].
    pub fn deadline(&self) -> Duration {
        self.groups.deadline()
    }

    /// Returns whether the devices of a group are logs: the space of what is overwritten or not discarded is not free.
    pub fn is_log(&self, group: u32) -> bool {
        let layout = self.groups.now();
        let mut members = layout.group(group).members.iter();
        members.all(|member| member.device.io_mode() == Some(IoMode::Log))
    }

    /// Says that a range of a segment is no longer needed, parity included.
    ///
    /// # Errors
    /// `Error::NoSuchPlace`, or the failure of a device that the group cannot do without.
    pub fn discard(&self, segment: SegmentId, offset: u32, len: u32) -> Result<()> {
        self.discard_on(None, segment, offset, len)
    }

    /// Does the same as [`Store::discard`], on one device of the group only, if one is named.
    ///
    /// # Errors
    /// As [`Store::discard`].
    pub fn discard_on(
        &self,
        only: Option<u64>,
        segment: SegmentId,
        offset: u32,
        len: u32,
    ) -> Result<()> {
        // A device that cannot discard is not a bad one.
        self.on_parts(
            only,
            segment,
            (offset, len),
            DISCARD,
            Arc::default(),
            |member, (at, len, _)| member.discard(*at, *len),
        )
    }

    /// Writes a pattern over and over to a range in which nothing is, on the devices of the group that are in use, or on
    /// one of them. It need not be durable, and a device that fails to write it is not a bad one.
    ///
    /// # Errors
    /// As [`Store::discard`].
    pub fn fill_on(
        &self,
        only: Option<u64>,
        segment: SegmentId,
        range: (u32, u32),
        pattern: [u8; 8],
    ) -> Result<()> {
        let bytes = pattern.repeat(FILL.min(range.1.into()) as usize / pattern.len());
        self.on_parts(
            only,
            segment,
            range,
            FILL,
            bytes.into(),
            |member, (at, len, bytes)| {
                if member.is_stalled() {
                    return Ok(());
                }
                member.write(*at, &[IoSlice::new(&bytes[..*len as usize])])
            },
        )
    }

    /// Does something to the part of a range that each device in use has of it, or one of them, in pieces of at most so
    /// many bytes. One that does not answer, and can be done without, is faulted. A late request may land on what is
    /// written next.
    fn on_parts(
        &self,
        only: Option<u64>,
        segment: SegmentId,
        (offset, len): (u32, u32),
        piece: u64,
        bytes: Arc<[u8]>,
        act: fn(&Member, &DeviceWrite) -> Result<()>,
    ) -> Result<()> {
        let layout = self.groups.now();
        let group = layout.group(segment.group());
        group.check_range(segment, offset, len.into())?;
        let columns = group.shape().columns() as u64;
        let from = group.unit(segment, offset);
        let to = from + u64::from(len / UNIT);
        let is_wanted = |member: &Member| only.is_none_or(|guid| guid == member.guid());
        let members = group.members.iter().filter(|member| is_wanted(member));
        let parts = members.map(|member| {
            let row = |unit: u64| {
                unit.saturating_sub(member.column() as u64)
                    .div_ceil(columns)
            };
            (member, member.row(row(from))..member.row(row(to)))
        });
        let parts: Vec<_> = parts.collect();
        let longest = parts.iter().map(|(_, part)| part.end - part.start).max();
        let mut outcome = Ok(());
        for done in (0..longest.unwrap_or(0)).step_by(piece as usize) {
            let tasks = parts.iter().filter_map(|(member, part)| {
                let at = part.start + done;
                let len = part.end.saturating_sub(at).min(piece);
                let task = (at, len, Arc::clone(&bytes));
                let is_due = len > 0 && member.is_active();
                is_due.then(|| (Arc::clone(member), Arc::new(task)))
            });
            let tasks: Vec<_> = tasks.collect();
            let outcomes = self.groups.on_some(&layout, &tasks, act);
            outcome = outcomes.into_iter().flatten().fold(outcome, Result::and);
        }
        outcome
    }

    /// Makes everything written durable. After a failure nothing may be assumed of what was written
    /// since the last success.
    ///
    /// # Errors
    /// The failure of a device that a group cannot do without, also of an earlier flush.
    pub fn flush(&self) -> Result<()> {
        let layout = self.groups.now();
        self.flush_members(&layout, layout.members())
    }

    /// Makes sure that no power cut keeps a later write and loses an earlier one. With several devices this is a flush: each
    /// device knows only the order of its own writes.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn order(&self) -> Result<()> {
        let layout = self.groups.now();
        match layout.members().count() {
            1 => self.on_dirty(&layout, layout.members(), |member, ()| member.order()),
            _ => self.flush_members(&layout, layout.members()),
        }
    }

    /// Makes durable what was written to the members of a group.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn flush_group(&self, group: u32) -> Result<()> {
        let layout = self.groups.now();
        let members = &layout.group(group).members;
        self.flush_members(&layout, members.iter())
    }

    /// Returns why no flush would succeed: a device refused a write to a segment, which is in memory only.
    pub fn stall(&self) -> Option<Error> {
        let layout = self.groups.now();
        let stalled = layout.active().find(|member| member.is_stalled())?;
        stalled.stall()
    }

    /// Has devices that failed and could not be done without take what they did not, and flushes all. True
    /// if a flush had failed. Then only reading tells which writes since the last good one are there, and reads
    /// are of the medium. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// A device fails still. Nothing is forgotten.
    pub fn retry(&self) -> Result<bool> {
        let layout = self.groups.now();
        for member in layout.active() {
            member.retry()?;
        }
        let lost: Vec<&Arc<Member>> = layout.active().filter(|m| m.may_have_lost()).collect();
        lost.iter().for_each(|member| member.trust());
        Ok(!lost.is_empty())
    }

    /// Returns whether a group has members that hold everything together.
    pub fn works(&self, group: u32) -> bool {
        self.groups.now().group(group).works()
    }

    /// Returns whether the way to read that is `nth` trusts only members that hold everything.
    pub fn is_trusted(&self, group: u32, nth: usize) -> bool {
        let layout = self.groups.now();
        let group = layout.group(group);
        match group.shape().has_parity() {
            true => group.is_trusted_way(nth),
            false => nth < group.members_online(),
        }
    }

    /// Writes stripes to a group with parity.
    fn write_stripes(
        &self,
        layout: &StoreLayout,
        group: &Group,
        (segment, offset): (SegmentId, u32),
        stripes: &[&[u8]],
    ) {
        let mut batches: Vec<MemberBatch> = Vec::new();
        let at_once = batch::is_worthwhile(layout, &group.members);
        group.write_stripes(segment, offset, stripes, |member, at, pieces| {
            if at_once {
                MemberBatch::add(&mut batches, member, (at, batch::bytes_of(pieces)));
            } else if member.is_active() {
                self.groups.write(layout, member, at, pieces);
            }
        });
        let batches: Vec<Arc<MemberBatch>> = batches.into_iter().map(Arc::new).collect();
        self.groups.write_batches(layout, &batches);
    }

    /// Flushes those of some members that were written to, side by side.
    fn flush_members<'a>(
        &self,
        layout: &StoreLayout,
        members: impl Iterator<Item = &'a Arc<Member>>,
    ) -> Result<()> {
        self.on_dirty(layout, members, |member, ()| member.flush())
    }

    /// Has some members do their part, side by side, if they were written to.
    fn on_dirty<'a>(
        &self,
        layout: &StoreLayout,
        members: impl Iterator<Item = &'a Arc<Member>>,
        part: fn(&Member, &()) -> Result<()>,
    ) -> Result<()> {
        let active = members.filter(|member| member.is_active());
        let dirty = active.filter(|member| member.is_dirty());
        let nothing = Arc::new(());
        let tasks = dirty.map(|member| (Arc::clone(member), Arc::clone(&nothing)));
        let tasks: Vec<_> = tasks.collect();
        let outcomes = self.groups.on_all(layout, &tasks, part);
        let members = tasks.iter().map(|(member, _)| member);
        self.groups.outcome(layout, members, outcomes)
    }
}
