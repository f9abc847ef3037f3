//! Groups: devices that hold segments together.
//!
//! What is written goes to every member of a group that is online or being resilvered. A member that
//! fails is faulted as long as enough online ones are left. The writes that it missed make it worthless until it
//! has been resilvered. One that the others cannot do without stays, and its failure is the
//! operation's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use block::Loss;
use parking_lot::{Mutex, RwLock};

use crate::group::member::{Member, MemberFailure};
use crate::layout::shape::Shape;
use crate::{DeviceFault, Error, MemberState, Result, SegmentId, UNIT};

/// Neighbouring places are read from the same member, up to this many bytes.
const STRIPE: u32 = 1 << 20;

/// The time of a member for a write or flush, unless the pool sets another. Disks give up a bad sector after 7 s
/// if they are made for mirrors. The system resets a disk after 30 s.
const DEADLINE: Duration = Duration::from_secs(10);

/// The members of one group.
#[derive(Clone, Default)]
pub(crate) struct Group {
    pub(crate) members: Vec<Arc<Member>>,
    /// The number of segments that the pool states, parity included. Before that, the labels count.
    pub(crate) segments: Option<u32>,
    /// The number of segments of a group that the pool can do without, also while none of its members
    /// is there.
    pub(crate) dispensable: Option<u32>,
}

impl Group {
    /// A group with as many segments as its labels say.
    pub(crate) fn new(members: Vec<Arc<Member>>) -> Group {
        let mut group = Group {
            members,
            ..Group::default()
        };
        group.segments = Some(group.segments());
        group
    }

    pub(crate) fn shape(&self) -> Shape {
        self.members.first().map_or(Shape::WHOLE, |m| m.shape())
    }

    /// Returns the number of segments that each device has space for, and the shape of the group.
    pub(crate) fn per_column(&self) -> (u32, Shape) {
        let shape = self.shape();
        let segments = match (self.segments, self.members.first()) {
            (Some(all), Some(_)) => all / shape.columns() as u32,
            (None, Some(first)) => first.geometry.segments,
            (_, None) => self.dispensable.unwrap_or(0),
        };
        (segments, shape)
    }

    /// No segment has this index or a higher one. What labels say is too little of a group that has grown.
    fn limit(&self) -> u32 {
        if self.segments.is_some() {
            return self.segments();
        }
        let all = self
            .members
            .iter()
            .map(|member| member.geometry.segments_max());
        let most = all.max().unwrap_or(0);
        most.saturating_mul(self.shape().columns() as u32)
    }

    /// An error if a member cannot hold its part of so many segments.
    pub(crate) fn check_space(&self, member: &Member, segments: u32) -> Result<()> {
        let each = segments / self.shape().columns() as u32;
        match member.geometry.segments_max() >= each {
            true => Ok(()),
            false => Err(Error::TooSmall {
                device: member.device.name(),
                size: member.geometry.device_size,
                minimum: member.geometry.least_size(each),
            }),
        }
    }

    /// Says how many segments there are, parity included.
    pub(crate) fn set_segments(&mut self, segments: u32) -> Result<()> {
        for member in &self.members {
            self.check_space(member, segments)?;
        }
        self.segments = Some(segments);
        Ok(())
    }

    /// Takes a member in, which must have space for its part.
    pub(crate) fn take_in(&mut self, member: Arc<Member>) -> Result<()> {
        // It may have grown since the member was labelled.
        let each = self.per_column().0;
        let all = each.saturating_mul(self.shape().columns() as u32);
        self.check_space(&member, all)?;
        self.members.push(member);
        Ok(())
    }

    /// Returns whether so many members hold everything as are needed for that.
    pub(crate) fn works(&self) -> bool {
        let complete = |column| {
            let mut members = self.members.iter().filter(|m| m.column() == column);
            members.any(|member| member.is_complete())
        };
        let columns = (0..self.shape().columns()).filter(|n| complete(*n));
        columns.count() >= self.shape().needed()
    }

    /// Returns the number of segments, parity included.
    pub(crate) fn segments(&self) -> u32 {
        let (segments, shape) = self.per_column();
        segments.saturating_mul(shape.columns() as u32)
    }

    /// Returns the number of columns that hold all segments without these members.
    fn columns_without(&self, guids: &BTreeSet<u64>) -> usize {
        let complete = |column| {
            let mut members = self.members.iter().filter(|m| m.column() == column);
            members.any(|other| !guids.contains(&other.guid()) && other.is_complete())
        };
        (0..self.shape().columns()).filter(|n| complete(*n)).count()
    }

    /// The members that can be read, those that hold everything first.
    pub(crate) fn readers(&self) -> impl Iterator<Item = &Arc<Member>> {
        let in_state = |state| self.members.iter().filter(move |m| m.state() == state);
        in_state(MemberState::Online).chain(in_state(MemberState::Resilvering))
    }

    pub(crate) fn width(&self) -> usize {
        match self.shape().has_parity() {
            true => self.ways().len(),
            false => self.readers().count(),
        }
    }

    pub(crate) fn members_online(&self) -> usize {
        self.members.iter().filter(|m| m.is_complete()).count()
    }

    /// The member that is asked `nth` for a place. Which is first depends on the place, so that all
    /// online members have their share.
    pub(crate) fn nth_reader(
        &self,
        nth: usize,
        segment: SegmentId,
        offset: u32,
    ) -> Option<&Member> {
        if let [only] = &self.members[..] {
            return only.is_active().then_some(only);
        }
        let online = self.members_online();
        let width = self.readers().count();
        if width == 0 {
            return None;
        }
        let nth = nth % width;
        let place = match online {
            0 => nth,
            _ if nth >= online => nth,
            _ => (nth + (segment.index() ^ (offset / STRIPE)) as usize) % online,
        };
        self.readers().nth(place).map(Arc::as_ref)
    }

    /// An error if the group has no such place. `lens` are the bytes of the stripes that lie there one
    /// behind the other.
    pub(crate) fn check_place(
        &self,
        segment: SegmentId,
        offset: u32,
        lens: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let shape = self.shape();
        let mut len = 0u64;
        for bytes in lens {
            len += match shape.has_parity() {
                true => u64::from(shape.taken(units_of(bytes))) * u64::from(UNIT),
                false => bytes as u64,
            };
        }
        self.check_range(segment, offset, len)
    }

    /// An error if the group has no such range, parity included.
    pub(crate) fn check_range(&self, segment: SegmentId, offset: u32, len: u64) -> Result<()> {
        let exists = self.members.first().is_some_and(|member| {
            segment.index() < self.limit()
                && u64::from(offset) + len <= u64::from(member.geometry.segment_size)
                && (!self.shape().has_parity() || offset.is_multiple_of(UNIT))
        });
        match exists {
            true => Ok(()),
            false => Err(Error::NoSuchPlace {
                group: segment.group() as u16,
                index: segment.index(),
                offset,
                len,
            }),
        }
    }

    /// The number in the group of the unit at a place.
    pub(crate) fn unit(&self, segment: SegmentId, offset: u32) -> u64 {
        let size = self.members.first().map_or(0, |m| m.geometry.segment_size);
        (u64::from(segment.index()) * u64::from(size) + u64::from(offset)) / u64::from(UNIT)
    }
}

/// Returns the number of units for so many bytes.
pub(crate) fn units_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT as usize)).unwrap_or(u32::MAX)
}

/// Returns the address, on a member of a group without parity, of an offset in a segment.
pub(crate) fn at(member: &Member, segment: SegmentId, offset: u32) -> u64 {
    member.geometry.segment(segment.index()) + u64::from(offset)
}

/// All devices of a pool that are there.
#[derive(Clone, Default)]
pub(crate) struct StoreLayout {
    pub(crate) groups: Vec<Group>,
    pub(crate) spares: Vec<Arc<Member>>,
}

impl StoreLayout {
    /// A group; an empty one if there is none of this number.
    pub(crate) fn group(&self, number: u32) -> &Group {
        static NONE: Group = Group {
            members: Vec::new(),
            segments: None,
            dispensable: None,
        };
        self.groups.get(number as usize).unwrap_or(&NONE)
    }

    /// The group of a place with so many bytes.
    ///
    /// # Errors
    /// [`Error::NoSuchPlace`].
    pub(crate) fn group_at(&self, segment: SegmentId, offset: u32, len: usize) -> Result<&Group> {
        let group = self.group(segment.group());
        group.check_place(segment, offset, std::iter::once(len))?;
        Ok(group)
    }

    /// # Errors
    /// [`Error::NoSuchMember`].
    pub(crate) fn member(&self, guid: u64) -> Result<&Arc<Member>> {
        self.find(guid).ok_or(Error::NoSuchMember { guid })
    }

    /// A group that has members, or that the pool can do without.
    ///
    /// # Errors
    /// [`Error::NoSuchPlace`].
    pub(crate) fn find_group(&self, group: u16) -> Result<&Group> {
        let found = self.groups.get(usize::from(group));
        found
            .filter(|group| !group.members.is_empty() || group.dispensable.is_some())
            .ok_or(Error::NoSuchPlace {
                group,
                index: 0,
                offset: 0,
                len: 0,
            })
    }

    pub(crate) fn new(members: Vec<Arc<Member>>) -> StoreLayout {
        let mut groups: BTreeMap<u16, Group> = BTreeMap::new();
        let mut layout = StoreLayout::default();
        for member in members {
            match member.label.is_spare() {
                true => {
                    // It is neither read nor written, but for its label.
                    member.set_state(MemberState::Offline);
                    layout.spares.push(member);
                }
                false => {
                    let group = groups.entry(member.label.group.get()).or_default();
                    group.members.push(member);
                }
            }
        }
        let count = groups.keys().next_back().map_or(0, |g| usize::from(*g) + 1);
        layout.groups.resize(count, Group::default());
        for (number, group) in groups {
            layout.groups[usize::from(number)] = group;
        }
        layout
    }

    /// Other members, in the groups that there are.
    pub(crate) fn with(&self, members: Vec<Arc<Member>>) -> StoreLayout {
        let mut layout = StoreLayout::new(members);
        for (number, group) in self.groups.iter().enumerate() {
            if let Some(same) = layout.groups.get_mut(number) {
                same.segments = group.segments;
            }
            if let Some(segments) = group.dispensable {
                layout.make_dispensable(number, segments);
            }
        }
        layout
    }

    pub(crate) fn make_dispensable(&mut self, group: usize, segments: u32) {
        if self.groups.len() <= group {
            self.groups.resize(group + 1, Group::default());
        }
        self.groups[group].dispensable = Some(segments);
    }

    /// Every member of a group.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.groups.iter().flat_map(|group| &group.members)
    }

    /// Members and spares.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members().chain(&self.spares)
    }

    /// Members that are written to.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members().filter(|member| member.is_active())
    }

    pub(crate) fn find(&self, guid: u64) -> Option<&Arc<Member>> {
        self.all().find(|member| member.guid() == guid)
    }

    /// Puts a device in the place of the same one.
    pub(crate) fn renew(&mut self, member: &Arc<Member>) {
        let groups = self.groups.iter_mut();
        let members = groups.flat_map(|group| &mut group.members);
        let all = members.chain(&mut self.spares);
        for same in all.filter(|same| same.guid() == member.guid()) {
            *same = Arc::clone(member);
        }
    }

    pub(crate) fn remove(&mut self, guid: u64) {
        self.spares.retain(|spare| spare.guid() != guid);
        for group in &mut self.groups {
            group.members.retain(|member| member.guid() != guid);
        }
        // A group that was to be added, and was not.
        while self
            .groups
            .last()
            .is_some_and(|group| group.members.is_empty() && group.dispensable.is_none())
        {
            self.groups.pop();
        }
    }

    /// Returns whether the others of its group hold everything.
    pub(crate) fn can_spare(&self, member: &Member) -> bool {
        self.can_do_without(member, &BTreeSet::from([member.guid()]))
    }

    /// Returns whether the group of a member holds everything without some members.
    fn can_do_without(&self, member: &Member, guids: &BTreeSet<u64>) -> bool {
        let group = self.groups.get(usize::from(member.label.group.get()));
        // A spare holds nothing but its label.
        member.label.is_spare()
            || group.is_some_and(|group| {
                group.dispensable.is_some()
                    || group.columns_without(guids) >= group.shape().needed()
            })
    }
}

/// The layout as it is now, and what failed in it.
pub(crate) struct Groups {
    layout: RwLock<Arc<StoreLayout>>,
    /// The time in milliseconds that a member has for a write or flush; see `deadline`.
    deadline: AtomicU64,
    faults: Mutex<Vec<DeviceFault>>,
    /// A device that this machine has lost, and how. The pool is lost with it.
    lost: OnceLock<(String, Loss)>,
}

impl Groups {
    pub(crate) fn new(layout: StoreLayout) -> Groups {
        Groups {
            layout: RwLock::new(Arc::new(layout)),
            deadline: AtomicU64::new(DEADLINE.as_millis() as u64),
            faults: Mutex::default(),
            lost: OnceLock::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline.load(Ordering::Relaxed))
    }

    pub(crate) fn set_deadline(&self, deadline: Duration) {
        let millis = deadline.as_millis().try_into().unwrap_or(u64::MAX);
        self.deadline.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Arc<StoreLayout> {
        Arc::clone(&self.layout.read())
    }

    /// Changes the layout; running operations go on with the one before.
    pub(crate) fn change(&self, change: impl FnOnce(&mut StoreLayout)) {
        let mut current = self.layout.write();
        let mut layout = StoreLayout::clone(&current);
        change(&mut layout);
        *current = Arc::new(layout);
    }

    /// Changes the layout, unless `change` refuses.
    pub(crate) fn try_change(
        &self,
        change: impl FnOnce(&mut StoreLayout) -> Result<()>,
    ) -> Result<()> {
        let mut current = self.layout.write();
        let mut layout = StoreLayout::clone(&current);
        change(&mut layout)?;
        *current = Arc::new(layout);
        Ok(())
    }

    pub(crate) fn take_faults(&self) -> Vec<DeviceFault> {
        std::mem::take(&mut *self.faults.lock())
    }

    /// The name of a device that this machine has lost, and how.
    pub(crate) fn lost(&self) -> Option<(String, Loss)> {
        self.lost.get().cloned()
    }

    /// Asks a member whether another machine has taken it.
    pub(crate) fn check_claim(&self, member: &Member) -> Result<()> {
        let checked = member.check_claim();
        if let Err(block::Error::ClaimLost { device, loss }) = &checked {
            self.lost.get_or_init(|| (device.clone(), *loss));
        }
        Ok(checked?)
    }

    /// Returns whether an error says that another machine has taken a device, and notes it. A device that has fences tells
    /// this by itself.
    pub(crate) fn note_taken(&self, error: &Error) -> bool {
        let Error::Device(block::Error::ClaimLost { device, loss }) = error else {
            return false;
        };
        self.lost.get_or_init(|| (device.clone(), *loss));
        true
    }

    /// Handles the failure of a member. It returns no error if the other members of the group hold all data, unless
    /// another machine has taken the member.
    pub(crate) fn failed(&self, layout: &StoreLayout, member: &Member, error: Error) -> Result<()> {
        self.check_claim(member)?;
        if self.note_taken(&error) || self.lost.get().is_some() {
            return Err(error);
        }
        // One at a time, so that of two that fail at once one is the last.
        let mut faults = self.faults.lock();
        if !member.is_active() {
            return Ok(());
        }
        if !layout.can_spare(member) {
            return Err(error);
        }
        member.set_state(MemberState::Faulted);
        faults.push(DeviceFault {
            guid: member.guid(),
            name: member.device.name(),
            error,
        });
        Ok(())
    }

    /// Faults a member that does not answer, if its group holds everything without the members that have not answered
    /// or have failed. The device is not asked who has it: it would not answer that either.
    pub(crate) fn give_up(
        &self,
        layout: &StoreLayout,
        member: &Member,
        without: &BTreeSet<u64>,
    ) -> bool {
        let mut faults = self.faults.lock();
        if !member.is_active() {
            return true;
        }
        if !layout.can_do_without(member, without) {
            return false;
        }
        member.count(MemberFailure::Write);
        member.set_state(MemberState::Faulted);
        faults.push(DeviceFault {
            guid: member.guid(),
            name: member.device.name(),
            error: member.unanswered(self.deadline()),
        });
        true
    }

    /// Writes to a member. One that fails is faulted, or where its group cannot do without it what it did not
    /// take is kept in memory, and no flush succeeds.
    pub(crate) fn write(
        &self,
        layout: &StoreLayout,
        member: &Member,
        at: u64,
        pieces: &[IoSlice<'_>],
    ) {
        if member.owe_more(at, pieces) {
            return;
        }
        let failed = member.write(at, pieces).err();
        let kept = failed.and_then(|error| self.failed(layout, member, error).err());
        if let Some(error) = kept {
            member.owe(at, pieces, &error);
        }
    }

    /// Combines the outcomes of an operation on several members. A member that failed is faulted.
    pub(crate) fn outcome<'a>(
        &self,
        layout: &StoreLayout,
        members: impl Iterator<Item = &'a Arc<Member>>,
        outcomes: Vec<Option<Result<()>>>,
    ) -> Result<()> {
        let outcomes = members.zip(outcomes);
        let failed = outcomes.filter_map(|(member, outcome)| Some((member, outcome?.err()?)));
        failed
            .map(|(member, error)| self.failed(layout, member, error))
            .fold(Ok(()), Result::and)
    }

    /// Does the same to some members. One that fails, or does not answer and can be done without, is faulted.
    pub(crate) fn on_members<'a, T: Send + Sync + 'static>(
        &self,
        layout: &StoreLayout,
        members: impl Iterator<Item = &'a Arc<Member>>,
        task: T,
        act: fn(&Member, &T) -> Result<()>,
    ) -> Result<()> {
        let task = Arc::new(task);
        let tasks = members.map(|member| (Arc::clone(member), Arc::clone(&task)));
        let tasks: Vec<_> = tasks.collect();
        let outcomes = self.on_some(layout, &tasks, act);
        self.outcome(layout, tasks.iter().map(|(member, _)| member), outcomes)
    }
}
