//! Groups: devices that hold the same segments.
//!
//! What is written goes to every member of a group that is online or being resilvered. A member that
//! fails is faulted as long as another online one is left: what it missed makes it worthless until it
//! has been resilvered. The last one stays, and its failure is the operation's.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::member::Member;
use crate::{Error, Fault, MemberState, Result, SegmentId};

/// Neighbouring places are read from the same member, up to this many bytes.
const STRIPE: u32 = 1 << 20;

/// The members of one group.
#[derive(Clone, Default)]
pub(crate) struct Group {
    pub(crate) members: Vec<Arc<Member>>,
}

impl Group {
    pub(crate) fn segments(&self) -> u32 {
        self.members.first().map_or(0, |m| m.geometry.segments)
    }

    /// The members that can be read, those that hold everything first.
    pub(crate) fn readers(&self) -> impl Iterator<Item = &Arc<Member>> {
        let in_state = |state| self.members.iter().filter(move |m| m.state() == state);
        in_state(MemberState::Online).chain(in_state(MemberState::Resilvering))
    }

    pub(crate) fn width(&self) -> usize {
        self.readers().count()
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
        let online = self.members.iter().filter(|m| m.is_complete()).count();
        let width = self.width();
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

    /// The segments of a place; an error if there is none.
    pub(crate) fn check_place(&self, segment: SegmentId, offset: u32, len: u64) -> Result<()> {
        let exists = self.members.first().is_some_and(|member| {
            segment.index() < member.geometry.segments
                && u64::from(offset) + len <= u64::from(member.geometry.segment_size)
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
}

/// Where a place in a segment is on a member.
pub(crate) fn at(member: &Member, segment: SegmentId, offset: u32) -> u64 {
    member.geometry.segment(segment.index()) + u64::from(offset)
}

/// All devices of a pool that are there.
#[derive(Clone, Default)]
pub(crate) struct Layout {
    pub(crate) groups: Vec<Group>,
    pub(crate) spares: Vec<Arc<Member>>,
}

impl Layout {
    pub(crate) fn new(members: Vec<Arc<Member>>) -> Layout {
        let mut groups: BTreeMap<u16, Group> = BTreeMap::new();
        let mut layout = Layout::default();
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

    pub(crate) fn remove(&mut self, guid: u64) {
        self.spares.retain(|spare| spare.guid() != guid);
        for group in &mut self.groups {
            group.members.retain(|member| member.guid() != guid);
        }
        // A group that was to be added, and was not.
        while self
            .groups
            .last()
            .is_some_and(|group| group.members.is_empty())
        {
            self.groups.pop();
        }
    }

    fn group_of(&self, member: &Member) -> &[Arc<Member>] {
        let group = self.groups.get(usize::from(member.label.group.get()));
        group.map_or(&[], |group| &group.members)
    }
}

/// The layout as it is now, and what failed in it.
#[derive(Default)]
pub(crate) struct Groups {
    layout: RwLock<Arc<Layout>>,
    faults: Mutex<Vec<Fault>>,
}

impl Groups {
    pub(crate) fn new(layout: Layout) -> Groups {
        Groups {
            layout: RwLock::new(Arc::new(layout)),
            faults: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.read())
    }

    /// Changes the layout; whoever uses the one before goes on with it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Layout)) {
        let mut current = self.layout.write();
        let mut layout = Layout::clone(&current);
        change(&mut layout);
        *current = Arc::new(layout);
    }

    pub(crate) fn take_faults(&self) -> Vec<Fault> {
        std::mem::take(&mut *self.faults.lock())
    }

    /// A member failed. That is no failure as long as another one of its group is online.
    pub(crate) fn failed(&self, layout: &Layout, member: &Member, error: Error) -> Result<()> {
        // One at a time, so that of two that fail at once one is the last.
        let mut faults = self.faults.lock();
        if !member.is_active() {
            return Ok(());
        }
        let mut others = layout.group_of(member).iter();
        if !others.any(|other| other.guid() != member.guid() && other.is_complete()) {
            return Err(error);
        }
        member.set_state(MemberState::Faulted);
        faults.push(Fault {
            guid: member.guid(),
            name: member.device.name(),
            error,
        });
        Ok(())
    }

    /// Does something to each of some members; one that fails is faulted.
    pub(crate) fn on_each<'a>(
        &self,
        layout: &Layout,
        members: impl Iterator<Item = &'a Arc<Member>>,
        act: impl Fn(&Member) -> Result<()>,
    ) -> Result<()> {
        let mut done = Ok(());
        for member in members {
            let failure = act(member).err();
            if let Some(error) = failure {
                done = done.and(self.failed(layout, member, error));
            }
        }
        done
    }
}
