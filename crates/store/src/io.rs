//! Reading and writing a store on block devices, and changing which devices it is made of.

use std::borrow::Cow;
use std::io::IoSlice;
use std::sync::Arc;

use block::BlockDevice;

use crate::devices::{DeviceStore, refuse_contents};
use crate::group::{self, Group, Layout};
use crate::headers::Headers;
use crate::layout::{BLOCK, SUPERBLOCK_MAGIC, encode_frame};
use crate::member::{Failed, Member};
use crate::parity::part_of;
use crate::{
    Assigned, Error, Fault, HeaderCheck, Joins, MemberInfo, MemberState, NewMember, Newest, Parts,
    Result, SegmentId, Shape, Store, UNIT,
};

impl DeviceStore {
    /// Writes a superblock to the devices that are wanted.
    fn put_superblock(
        &self,
        txg: u64,
        payload: &[u8],
        is_wanted: fn(&Member) -> bool,
    ) -> Result<()> {
        let block: Box<[u8; BLOCK]> = encode_frame(SUPERBLOCK_MAGIC, self.pool_guid, txg, payload);
        let layout = self.groups.now();
        let members = layout.members().filter(|member| is_wanted(member));
        let write = |member: &Member| member.write_superblock(txg, &block);
        self.groups.on_each(&layout, members, write)
    }

    fn group(layout: &Layout, number: u32) -> &Group {
        static NONE: Group = Group {
            members: Vec::new(),
            segments: None,
            dispensable: None,
        };
        layout.groups.get(number as usize).unwrap_or(&NONE)
    }

    /// The group of a place with so many bytes.
    fn group_at(layout: &Layout, segment: SegmentId, offset: u32, len: usize) -> Result<&Group> {
        let group = DeviceStore::group(layout, segment.group());
        group.check_place(segment, offset, std::iter::once(len))?;
        Ok(group)
    }

    fn member(layout: &Layout, guid: u64) -> Result<&Arc<Member>> {
        layout.find(guid).ok_or(Error::NoSuchMember { guid })
    }

    /// Writes stripes to a group with parity.
    fn write_stripes(
        &self,
        layout: &Layout,
        group: &Group,
        (segment, offset): (SegmentId, u32),
        stripes: &[&[u8]],
    ) {
        group.write_stripes(segment, offset, stripes, |member, at, pieces| {
            if member.is_active() {
                self.groups.write(layout, member, at, pieces);
            }
        });
    }

    /// Flushes those of some members that were written to, side by side.
    fn flush_members<'a>(
        &self,
        layout: &Layout,
        members: impl Iterator<Item = &'a Arc<Member>>,
    ) -> Result<()> {
        let active = members.filter(|member| member.is_active());
        let dirty: Vec<&Arc<Member>> = active.filter(|m| m.is_dirty()).collect();
        let Some((last, others)) = dirty.split_last() else {
            return Ok(());
        };
        // One alone flushes on this thread.
        let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
            let threads: Vec<_> = others
                .iter()
                .map(|member| scope.spawn(|| member.flush()))
                .collect();
            let own = last.flush();
            let joined = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.chain(std::iter::once(own)).collect()
        });
        let failed = |(member, outcome): (&&Arc<Member>, Result<()>)| match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.groups.failed(layout, member, error),
        };
        dirty
            .iter()
            .zip(outcomes)
            .map(failed)
            .fold(Ok(()), Result::and)
    }

    fn find_group(layout: &Layout, group: u16) -> Result<&Group> {
        let found = layout.groups.get(usize::from(group));
        found
            .filter(|group| !group.members.is_empty() || group.dispensable.is_some())
            .ok_or(Error::NoSuchPlace {
                group,
                index: 0,
                offset: 0,
                len: 0,
            })
    }
}

/// Empties and labels a device that joins.
fn prepare(member: &Member) -> Result<()> {
    member.empty_headers()?;
    member.write_labels()
}

impl Store for DeviceStore {
    fn pool_guid(&self) -> u64 {
        self.pool_guid
    }

    fn segment_size(&self) -> u32 {
        self.segment_size
    }

    fn groups(&self) -> Vec<u32> {
        self.groups
            .now()
            .groups
            .iter()
            .map(Group::segments)
            .collect()
    }

    fn set_segments(&self, group: u16, segments: u32) -> Result<()> {
        self.groups.try_change(|layout| {
            let known = layout.groups.get_mut(usize::from(group));
            let known = known.ok_or(Error::NoMember {
                group: group.into(),
            })?;
            known.set_segments(segments)
        })
    }

    fn room_for(&self, size: u64) -> u32 {
        self.template().room_for(size)
    }

    fn refresh_sizes(&self) {
        for member in self.groups.now().all() {
            // One that cannot tell keeps the size that it had.
            let _ = member.device.refresh_size();
        }
    }

    fn extend(&self, guid: u64, key_blocks: &[u32], superblock: (u64, &[u8])) -> Result<bool> {
        let layout = self.groups.now();
        let member = DeviceStore::member(&layout, guid)?;
        self.extend_member(member, key_blocks, superblock)
    }

    fn wipe_end(&self, guid: u64, size: u64) -> Result<()> {
        let layout = self.groups.now();
        let member = DeviceStore::member(&layout, guid)?;
        let group = DeviceStore::group(&layout, member.label.group.get().into());
        member.wipe_end(size, group.per_column().0)
    }

    fn key_blocks(&self) -> u32 {
        self.key_blocks
    }

    fn members(&self) -> Vec<MemberInfo> {
        self.groups
            .now()
            .all()
            .map(|member| member.info())
            .collect()
    }

    fn shape(&self, group: u32) -> Shape {
        DeviceStore::group(&self.groups.now(), group).shape()
    }

    fn width(&self, group: u32) -> usize {
        DeviceStore::group(&self.groups.now(), group).width()
    }

    fn read_nth(&self, nth: usize, segment: SegmentId, offset: u32, buf: &mut [u8]) -> Result<()> {
        let layout = self.groups.now();
        let group = DeviceStore::group_at(&layout, segment, offset, buf.len())?;
        let none = Error::NoMember {
            group: segment.group(),
        };
        if group.shape().has_parity() {
            let way = group.way(nth).ok_or(none)?;
            return group.read_way(way, segment, offset, buf);
        }
        let member = group.nth_reader(nth, segment, offset).ok_or(none)?;
        member.read(group::at(member, segment, offset), buf)
    }

    fn holders(&self, segment: SegmentId, offset: u32, len: usize) -> Vec<(u64, MemberState)> {
        let layout = self.groups.now();
        let group = DeviceStore::group(&layout, segment.group());
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

    fn read_parts(
        &self,
        segment: SegmentId,
        offset: u32,
        len: usize,
        state: MemberState,
    ) -> Result<Parts> {
        let layout = self.groups.now();
        let group = DeviceStore::group_at(&layout, segment, offset, len)?;
        Ok(Parts::read(group, segment, offset, len, state))
    }

    fn write_part(&self, guid: u64, segment: SegmentId, offset: u32, whole: &[u8]) -> Result<()> {
        let layout = self.groups.now();
        let group = DeviceStore::group_at(&layout, segment, offset, whole.len())?;
        let member = group.members.iter().find(|member| member.guid() == guid);
        let member = member.ok_or(Error::NoSuchMember { guid })?;
        let Some((at, bytes)) = part_of(group, member, segment, offset, whole) else {
            return Ok(());
        };
        if !member.is_active() {
            return Ok(());
        }
        let one = std::iter::once(member);
        let write = |member: &Member| member.write(at, &[IoSlice::new(&bytes)]);
        self.groups.on_each(&layout, one, write)
    }

    fn count_damage(&self, guid: u64) {
        if let Some(member) = self.groups.now().find(guid) {
            member.count(Failed::Checksum);
        }
    }

    fn write(&self, segment: SegmentId, offset: u32, pieces: &[IoSlice<'_>]) -> Result<()> {
        let len = pieces.iter().map(|p| p.len()).sum();
        let layout = self.groups.now();
        let group = DeviceStore::group_at(&layout, segment, offset, len)?;
        if group.shape().has_parity() {
            let whole = match pieces {
                [only] => Cow::Borrowed(&only[..]),
                _ => Cow::Owned(pieces.iter().flat_map(|p| p.iter().copied()).collect()),
            };
            self.write_stripes(&layout, group, (segment, offset), &[&whole]);
            return Ok(());
        }
        let members = group.members.iter().filter(|member| member.is_active());
        for member in members {
            let at = group::at(member, segment, offset);
            self.groups.write(&layout, member, at, pieces);
        }
        Ok(())
    }

    fn write_each(&self, segment: SegmentId, offset: u32, stripes: &[&[u8]]) -> Result<()> {
        let layout = self.groups.now();
        let group = DeviceStore::group(&layout, segment.group());
        if !group.shape().has_parity() {
            let pieces: Vec<IoSlice<'_>> = stripes.iter().map(|s| IoSlice::new(s)).collect();
            return self.write(segment, offset, &pieces);
        }
        group.check_place(segment, offset, stripes.iter().map(|s| s.len()))?;
        self.write_stripes(&layout, group, (segment, offset), stripes);
        Ok(())
    }

    fn discard(&self, segment: SegmentId, offset: u32, len: u32) -> Result<()> {
        let layout = self.groups.now();
        let group = DeviceStore::group(&layout, segment.group());
        group.check_range(segment, offset, len.into())?;
        let columns = group.shape().columns() as u64;
        let from = group.unit(segment, offset);
        let to = from + u64::from(len / UNIT);
        let members = group.members.iter().filter(|member| member.is_active());
        // A device that cannot discard is not a bad one.
        members
            .map(|member| {
                let row = |unit: u64| {
                    unit.saturating_sub(member.column() as u64)
                        .div_ceil(columns)
                };
                let (first, last) = (row(from), row(to));
                member.discard(member.row(first), (last - first) * u64::from(UNIT))
            })
            .fold(Ok(()), Result::and)
    }

    fn flush(&self) -> Result<()> {
        let layout = self.groups.now();
        self.flush_members(&layout, layout.members())
    }

    fn flush_group(&self, group: u32) -> Result<()> {
        let layout = self.groups.now();
        let members = &DeviceStore::group(&layout, group).members;
        self.flush_members(&layout, members.iter())
    }

    fn stall(&self) -> Option<Error> {
        let layout = self.groups.now();
        let stalled = layout.active().find(|member| member.is_stalled())?;
        stalled.stall()
    }

    fn retry(&self) -> Result<bool> {
        let layout = self.groups.now();
        for member in layout.active() {
            member.retry()?;
        }
        let lost: Vec<&Arc<Member>> = layout.active().filter(|m| m.may_have_lost()).collect();
        lost.iter().try_for_each(|member| member.drop_cached())?;
        lost.iter().for_each(|member| member.trust());
        Ok(!lost.is_empty())
    }

    fn write_superblock(&self, txg: u64, payload: &[u8]) -> Result<()> {
        self.put_superblock(txg, payload, Member::is_active)
    }

    fn confirm_superblock(&self, txg: u64, payload: &[u8]) -> Result<()> {
        // One that is being resilvered would seem to hold everything.
        self.put_superblock(txg, payload, Member::is_complete)?;
        self.flush()
    }

    fn superblocks(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut found = Vec::new();
        let mut failure = None;
        for member in self.groups.now().active() {
            match member.superblocks(&mut found) {
                Err(error @ Error::TooNew { .. }) => return Err(error),
                Err(error) => failure = Some(error),
                Ok(()) => {}
            }
        }
        found.sort_by_key(|(txg, _)| std::cmp::Reverse(*txg));
        found.dedup_by_key(|(txg, _)| *txg);
        match found.is_empty() {
            true => Err(failure.unwrap_or(Error::NoSuperblock)),
            false => Ok(found),
        }
    }

    fn newest_superblocks(&self) -> Vec<Newest> {
        let newest = |member: &Arc<Member>| {
            let mut found = Vec::new();
            // What cannot be read is not there.
            let _ = member.superblocks(&mut found);
            Newest {
                guid: member.guid(),
                name: member.device.name(),
                superblock: found.into_iter().max_by_key(|(txg, _)| *txg),
            }
        };
        self.groups.now().members().map(newest).collect()
    }

    fn read_key_block(&self, index: u32) -> Result<Vec<u8>> {
        self.check_key_block(index)?;
        let layout = self.groups.now();
        // What a member lacks that is being resilvered may be a newer key.
        let complete = layout.members().filter(|member| member.is_complete());
        for member in complete {
            if let Some(payload) = member.read_key_block(index)? {
                return Ok(payload);
            }
        }
        Err(Error::DamagedKeyBlock { index })
    }

    fn write_key_block(&self, index: u32, payload: &[u8]) -> Result<()> {
        self.check_key_block(index)?;
        let layout = self.groups.now();
        let write = |member: &Member| member.write_key_block(index, payload);
        self.groups.on_each(&layout, layout.active(), write)
    }

    fn wipe_key_block(&self, index: u32) -> Result<()> {
        self.check_key_block(index)?;
        let layout = self.groups.now();
        let wipe = |member: &Member| member.wipe_key_block(index);
        self.groups.on_each(&layout, layout.active(), wipe)
    }

    fn key_block_is_blank(&self, index: u32) -> Result<bool> {
        self.check_key_block(index)?;
        for member in self.groups.now().active() {
            // One that cannot be read is not known to be blank.
            if !member.key_block_is_blank(index).unwrap_or(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_headers(&self, txg: u64, key_blocks: &[u32], mend: bool) -> Result<HeaderCheck> {
        let layout = self.groups.now();
        let mut headers = Headers {
            groups: &self.groups,
            layout: &layout,
            pool_guid: self.pool_guid,
            mend,
            found: HeaderCheck::default(),
        };
        headers.labels()?;
        headers.superblock(txg)?;
        for index in key_blocks {
            self.check_key_block(*index)?;
            headers.key_block(*index)?;
        }
        let found = headers.found;
        self.flush()?;
        Ok(found)
    }

    fn erase(&self) -> Result<()> {
        // Every device, also behind one that fails: a key is gone only where all copies are.
        let layout = self.groups.now();
        let outcomes: Vec<Result<()>> = layout.all().map(|m| m.overwrite_headers()).collect();
        outcomes.into_iter().collect()
    }

    fn take_faults(&self) -> Vec<Fault> {
        self.groups.take_faults()
    }

    fn assign(&self, devices: &[Assigned]) {
        self.groups.change(|layout| {
            let mut kept = Vec::new();
            for member in layout.all() {
                let assigned = devices.iter().find(|device| device.guid == member.guid());
                if let Some(assigned) = assigned {
                    member.set_state(assigned.state);
                    member.set_errors(&assigned.errors);
                    kept.push(Arc::clone(member));
                }
            }
            *layout = layout.with(kept);
        });
    }

    fn make_dispensable(&self, group: u16, segments: u32) {
        self.groups
            .change(|layout| layout.make_dispensable(group.into(), segments));
    }

    fn works(&self, group: u32) -> bool {
        DeviceStore::group(&self.groups.now(), group).works()
    }

    fn is_trusted(&self, group: u32, nth: usize) -> bool {
        let layout = self.groups.now();
        let group = DeviceStore::group(&layout, group);
        match group.shape().has_parity() {
            true => group.is_trusted_way(nth),
            false => nth < group.members_online(),
        }
    }

    fn set_state(&self, guid: u64, state: MemberState) {
        if let Some(member) = self.groups.now().find(guid) {
            member.set_state(state);
        }
    }

    fn clear_errors(&self, guid: Option<u64>) {
        let layout = self.groups.now();
        let wanted = |member: &&Arc<Member>| guid.is_none_or(|guid| guid == member.guid());
        layout
            .all()
            .filter(wanted)
            .for_each(|member| member.set_errors(&Default::default()));
    }

    fn join(&self, device: &NewMember, joins: Joins) -> Result<MemberInfo> {
        if !device.force {
            refuse_contents(device.device.as_ref())?;
        }
        let template = self.template();
        let holds = match joins {
            Joins::Group { group, .. } => {
                DeviceStore::find_group(&self.groups.now(), group)?.per_column()
            }
            Joins::Spares => (template.segments(device)?, Shape::WHOLE),
        };
        let member = template.member(device, joins, holds)?;
        prepare(&member)?;
        if let Joins::Group { .. } = joins {
            member.set_state(MemberState::Resilvering);
        }
        let info = member.info();
        self.groups.try_change(|layout| {
            match joins {
                Joins::Group { group, .. } => layout.groups[usize::from(group)].take_in(member)?,
                Joins::Spares => layout.spares.push(member),
            }
            Ok(())
        })?;
        Ok(info)
    }

    fn add_group(&self, devices: &[NewMember], parity: usize, segments_max: u32) -> Result<u16> {
        for new in devices.iter().filter(|new| !new.force) {
            refuse_contents(new.device.as_ref())?;
        }
        let number = self.groups.now().groups.len();
        let members = self
            .template()
            .group(devices, number, parity, segments_max)?;
        members.iter().try_for_each(|member| prepare(member))?;
        self.groups
            .change(|layout| layout.groups.push(Group::new(members)));
        Ok(number as u16)
    }

    fn enlist(&self, guid: u64, group: u16, column: u16) -> Result<()> {
        let layout = self.groups.now();
        let spare = DeviceStore::member(&layout, guid)?;
        let holds = DeviceStore::find_group(&layout, group)?.per_column();
        let new = NewMember {
            device: Arc::clone(&spare.device),
            guid,
            created: spare.label.created.get(),
            force: true,
        };
        let joins = Joins::Group { group, column };
        let member = self.template().member(&new, joins, holds)?;
        member.set_state(MemberState::Resilvering);
        member.write_labels()?;
        self.groups.try_change(|layout| {
            layout.remove(guid);
            layout.groups[usize::from(group)].take_in(member)
        })
    }

    fn dismiss(&self, guid: u64) -> Result<()> {
        let layout = self.groups.now();
        let old = DeviceStore::member(&layout, guid)?;
        let new = NewMember {
            device: Arc::clone(&old.device),
            guid,
            created: old.label.created.get(),
            force: true,
        };
        let template = self.template();
        let holds = (template.segments(&new)?, Shape::WHOLE);
        let spare = template.member(&new, Joins::Spares, holds)?;
        old.set_state(MemberState::Offline);
        self.groups.change(|layout| {
            layout.remove(guid);
            layout.spares.push(Arc::clone(&spare));
        });
        prepare(&spare)
    }

    fn take_back(&self, device: Arc<dyn BlockDevice>, guid: u64) -> Result<()> {
        let member = Member::open(device)?;
        let found = member.guid();
        if found != guid || member.label.pool_guid.get() != self.pool_guid {
            return Err(Error::Mismatch {
                reason: format!("{} is another device", member.device.name()),
            });
        }
        member.set_state(MemberState::Offline);
        self.groups.try_change(|layout| {
            if let Some(group) = layout.groups.get(usize::from(member.label.group.get())) {
                group.check_room(&member, group.segments())?;
            }
            let mut all: Vec<Arc<Member>> = layout.all().cloned().collect();
            all.retain(|other| other.guid() != guid);
            all.push(Arc::new(member));
            *layout = layout.with(all);
            Ok(())
        })
    }

    fn let_go(&self, guid: u64, erase: bool) -> Result<()> {
        let layout = self.groups.now();
        let Some(member) = layout.find(guid) else {
            return Ok(());
        };
        member.set_state(MemberState::Offline);
        self.groups.change(|layout| layout.remove(guid));
        match erase {
            true => member.overwrite_headers(),
            false => Ok(()),
        }
    }

    fn refresh_headers(&self, guid: u64, key_blocks: &[u32]) -> Result<()> {
        let layout = self.groups.now();
        let member = DeviceStore::member(&layout, guid)?;
        member.write_labels()?;
        for index in 0..self.key_blocks {
            match key_blocks.contains(&index) {
                true => member.write_key_block(index, &self.read_key_block(index)?)?,
                false => member.wipe_key_block(index)?,
            }
        }
        member.flush()
    }
}
