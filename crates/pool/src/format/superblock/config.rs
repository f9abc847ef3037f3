//! The configuration of a pool: its devices and their states, the scrub and the resilver, and the key blocks that have
//! to be wiped after a crash.

mod record;

use std::collections::BTreeSet;

use store::{ErrorCounts, Shape};

use crate::format::jobs::removal_status::RemovalStatus;
use crate::format::jobs::resilver_status::ResilverStatus;
use crate::format::jobs::scrub_status::ScrubStatus;

/// Groups that hold no data have no more segments than this together, there or not.
pub(crate) const ROLE_SEGMENTS_MAX: u32 = 1 << 20;

/// A pool has no more cache devices than this.
pub(crate) const CACHES_MAX: usize = 64;

/// The group of a device that is in none.
pub(crate) const NO_GROUP: u16 = store::layout::NO_GROUP;

/// The state of a device of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DeviceState {
    /// The device has all data of its group that it should have.
    #[default]
    Online = 0,
    /// The device is being brought up to date.
    Resilvering = 1,
    /// The administrator took it offline.
    Offline = 2,
    /// The device failed.
    Faulted = 3,
    /// The device was not there when the pool was imported.
    Missing = 4,
    /// The device waits to take the place of another one.
    Spare = 5,
}

impl DeviceState {
    fn from_number(number: u8) -> Option<DeviceState> {
        Some(match number {
            0 => DeviceState::Online,
            1 => DeviceState::Resilvering,
            2 => DeviceState::Offline,
            3 => DeviceState::Faulted,
            4 => DeviceState::Missing,
            5 => DeviceState::Spare,
            _ => return None,
        })
    }

    /// Returns the state that the store has to give to the device.
    pub(crate) fn member_state(self) -> store::MemberState {
        match self {
            DeviceState::Online => store::MemberState::Online,
            DeviceState::Resilvering => store::MemberState::Resilvering,
            DeviceState::Faulted => store::MemberState::Faulted,
            DeviceState::Offline | DeviceState::Missing | DeviceState::Spare => {
                store::MemberState::Offline
            }
        }
    }
}

/// A device as it was when the configuration was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigDevice {
    pub(crate) guid: u64,
    /// [`NO_GROUP`] of a spare.
    pub(crate) group: u16,
    /// The column that the device holds in a group with parity; else 0.
    pub(crate) column: u16,
    pub(crate) size: u64,
    pub(crate) path: String,
    pub(crate) state: DeviceState,
    /// Unless it is online: it may lack what was born after this transaction group. Of a spare: it held
    /// everything up to here, and may hold it still.
    pub(crate) from_txg: u64,
    /// The device whose place it takes, or 0.
    pub(crate) replaces: u64,
    pub(crate) is_temporary: bool,
    pub(crate) was_spare: bool,
    pub(crate) errors: ErrorCounts,
}

impl ConfigDevice {
    /// A device that is there, as its label says.
    pub(crate) fn new(member: &store::MemberInfo) -> ConfigDevice {
        ConfigDevice {
            guid: member.guid,
            group: member.group,
            column: member.column,
            size: member.size,
            path: member.name.clone(),
            state: match member.is_spare {
                true => DeviceState::Spare,
                false => DeviceState::Online,
            },
            ..ConfigDevice::default()
        }
    }

    /// Returns whether it has held all that its group held, at some time.
    fn was_whole(&self) -> bool {
        self.state == DeviceState::Online || self.from_txg > 0
    }

    /// The device that it has replaced, if the resilver is complete.
    pub(crate) fn replaced(&self) -> Option<u64> {
        let is_done = self.state == DeviceState::Online && !self.was_spare;
        (is_done && self.replaces != 0).then_some(self.replaces)
    }

    /// Returns whether it is, or should be, a member of a group.
    pub(crate) fn is_member(&self) -> bool {
        self.state != DeviceState::Spare
    }
}

/// The role of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Records and all else.
    #[default]
    Data = 0,
    /// Logs only. The pool can do without it.
    Logs = 1,
    /// The group was removed and holds nothing. Its number stays, since segments are counted group by group.
    Gone = 2,
    /// Records, which are being copied to other groups.
    Leaving = 3,
    /// The group was removed and holds nothing. The remap table has the new addresses of its data.
    Moved = 4,
}

impl Purpose {
    /// Returns whether the pool needs the devices of the group for its data.
    pub fn holds_data(self) -> bool {
        matches!(self, Purpose::Data | Purpose::Leaving)
    }
}

/// A purpose, and how many segments a group has that may not be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) purpose: Purpose,
    /// 0 of a group that holds data.
    pub(crate) segments: u32,
}

/// Segments of a group that are numbered one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) group: u16,
    /// The number of segments, parity included.
    pub(crate) segments: u32,
}

/// A pool has no more stretches than this.
pub(crate) const STRETCHES_MAX: usize = 4096;

/// A part of the pool's past: from one import on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Drawn at the import.
    pub(crate) guid: u64,
    /// The first transaction group of the stretch.
    pub(crate) start: u64,
}

/// A device that holds copies only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigCache {
    pub(crate) guid: u64,
    pub(crate) size: u64,
    pub(crate) path: String,
}

/// An image of the pool on another device, which follows its commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigFollower {
    /// The age that the image may have, in seconds.
    pub(crate) interval: u32,
    /// An image of an earlier transaction group may lack what the pool has since: it is copied as a whole.
    pub(crate) since: u64,
    pub(crate) path: String,
}

/// The configuration record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) devices: Vec<ConfigDevice>,
    /// Key blocks that nothing refers to since this commit and that must be overwritten.
    pub(crate) wipe: Vec<u32>,
    /// The scrub under way, or the last one.
    pub(crate) scrub: ScrubStatus,
    /// True if the pool knows of groups with several members. The rest is empty if not.
    pub(crate) is_redundant: bool,
    /// The layouts of the groups, if any has parity; those that are not here have none.
    pub(crate) shapes: Vec<Shape>,
    /// The purposes of the groups; those that are not here hold data.
    pub(crate) roles: Vec<Role>,
    /// The removal of a group that held data that is under way, or the last one.
    pub(crate) removal: Option<RemovalStatus>,
    /// The past, as far back as any device may be.
    pub(crate) epochs: Vec<Epoch>,
    /// The resilver under way, or the last one.
    pub(crate) resilver: ResilverStatus,
    /// The segments in the order of their numbers, if a group has grown. If none has, they are numbered group
    /// by group, and the labels say how many there are.
    pub(crate) stretches: Vec<Stretch>,
    /// Devices of the second-level cache. They stand at the end of the record: programs that do not know of
    /// them do without.
    pub(crate) caches: Vec<ConfigCache>,
    /// The guids of the pools that were split off last.
    pub(crate) splits: Vec<u64>,
    /// The image that follows the commits of the pool.
    pub(crate) follower: Option<ConfigFollower>,
}

/// The most pools in [`Config::splits`].
pub(crate) const SPLITS_MAX: usize = 64;

impl Config {
    /// Lists a pool that this commit splits off.
    pub(crate) fn add_split(&mut self, guid: u64) {
        if self.splits.len() >= SPLITS_MAX {
            self.splits.remove(0);
        }
        self.splits.push(guid);
    }

    pub(crate) fn group(&self, group: u16) -> impl Iterator<Item = &ConfigDevice> {
        let members = self.devices.iter().filter(|device| device.is_member());
        members.filter(move |device| device.group == group)
    }

    /// The layout of a group.
    pub(crate) fn shape(&self, group: u16) -> Shape {
        let shape = self.shapes.get(usize::from(group));
        shape.copied().unwrap_or(Shape::WHOLE)
    }

    /// The role of a group.
    pub(crate) fn purpose(&self, group: u16) -> Purpose {
        let role = self.roles.get(usize::from(group));
        role.map_or(Purpose::Data, |role| role.purpose)
    }

    /// The groups that the pool can do without, and how many segments each has.
    pub(crate) fn dispensable(&self) -> impl Iterator<Item = (u16, u32)> {
        let roles = self.roles.iter().zip(0..);
        let others = roles.filter(|(role, _)| !role.purpose.holds_data());
        others.map(|(role, group)| (group, role.segments))
    }

    /// The group whose contents are being copied to others.
    pub(crate) fn leaving(&self) -> Option<u16> {
        let mut roles = self.roles.iter().zip(0..);
        let leaving = roles.find(|(role, _)| role.purpose == Purpose::Leaving);
        leaving.map(|(_, group)| group)
    }

    /// The roles of the groups.
    pub(crate) fn purposes(&self) -> impl Iterator<Item = Purpose> {
        let listed = self.roles.iter().map(|role| role.purpose);
        listed.chain(std::iter::repeat(Purpose::Data))
    }

    /// Groups that are gone, and behind which there is no other, need no numbers. How many are left of so
    /// many groups.
    pub(crate) fn forget_last_gone(&mut self, mut groups: u32) -> u32 {
        while self.roles.len() == groups as usize
            && self.is_numbered_last(groups)
            && self
                .roles
                .pop_if(|role| role.purpose == Purpose::Gone)
                .is_some()
        {
            groups -= 1;
            self.stretches
                .retain(|stretch| u32::from(stretch.group) < groups);
        }
        groups
    }

    /// Returns whether no other segments have higher numbers than those of the last group.
    fn is_numbered_last(&self, groups: u32) -> bool {
        let is_last = |stretch: &Stretch| u32::from(stretch.group) + 1 == groups;
        let mut others = self.stretches.iter().skip_while(|s| !is_last(s));
        others.all(is_last)
    }

    /// Returns the number of segments of a group, parity included, if the configuration says so.
    pub(crate) fn segments(&self, group: u16) -> Option<u32> {
        if self.stretches.is_empty() {
            return None;
        }
        let own = self.stretches.iter().filter(|s| s.group == group);
        Some(own.map(|stretch| stretch.segments).sum())
    }

    /// Returns whether a device, or several together, can tell what is in the logs of a group: no write there has
    /// failed that was reported as durable.
    pub(crate) fn knows_logs(&self, group: u16) -> bool {
        self.purpose(group).holds_data()
            || self.group(group).any(|device| match device.state {
                DeviceState::Online => true,
                DeviceState::Resilvering => self.is_sole(device),
                _ => false,
            })
    }

    /// Returns whether no other device in its group was ever whole. One that was to become that has nothing that this
    /// one lacks.
    pub(crate) fn is_sole(&self, device: &ConfigDevice) -> bool {
        let mut whole = self.group(device.group).filter(|other| other.was_whole());
        whole.next().is_some_and(|first| first.guid == device.guid) && whole.next().is_none()
    }

    /// Says what a group is there for.
    pub(crate) fn set_role(&mut self, group: u16, role: Role) {
        let group = usize::from(group);
        if self.roles.len() <= group {
            self.roles.resize(group + 1, Role::default());
        }
        self.roles[group] = role;
    }

    /// The number of segments of groups without data.
    pub(crate) fn role_segments(&self) -> u32 {
        let segments = self.roles.iter().map(|role| role.segments);
        segments.fold(0, u32::saturating_add)
    }

    /// Returns whether the `whole` devices of a group together have all its data.
    pub(crate) fn is_complete(&self, group: u16, whole: impl Fn(&ConfigDevice) -> bool) -> bool {
        self.columns(group, whole) >= self.shape(group).needed()
    }

    /// Returns the number of columns of a group that have a device that is `whole`.
    pub(crate) fn columns(&self, group: u16, whole: impl Fn(&ConfigDevice) -> bool) -> usize {
        let devices = self.group(group).filter(|device| whole(device));
        let columns: BTreeSet<u16> = devices.map(|device| device.column).collect();
        columns.len()
    }

    /// Has the devices that need it resilvered, from the beginning. When it began is not known yet.
    pub(crate) fn restart_resilver(&mut self) {
        let needs_it = |device: &ConfigDevice| device.state == DeviceState::Resilvering;
        match self.devices.iter().any(needs_it) {
            true => self.resilver = ResilverStatus::running(),
            false => self.resilver.cancel(),
        }
    }

    pub(crate) fn device(&mut self, guid: u64) -> Option<&mut ConfigDevice> {
        self.devices.iter_mut().find(|device| device.guid == guid)
    }
}
