//! What the pool keeps about itself: which devices it is made of, what became of them, the scrub and
//! the resilver, and the key blocks that a crash may have left to wipe.
//!
//! A pool in which no group has ever had more than one device has version 1 of the record, which
//! lists paths and sizes only. Version 2 belongs to the feature [`FEATURE_REDUNDANT`], version 3 to
//! [`FEATURE_PARITY`], version 4 to [`FEATURE_LOG_DEVICES`], version 5 to [`FEATURE_REMOVED`].
//!
//! [`FEATURE_REDUNDANT`]: crate::root::FEATURE_REDUNDANT
//! [`FEATURE_PARITY`]: crate::root::FEATURE_PARITY
//! [`FEATURE_LOG_DEVICES`]: crate::root::FEATURE_LOG_DEVICES
//! [`FEATURE_REMOVED`]: crate::root::FEATURE_REMOVED

use std::collections::BTreeSet;

use store::{ErrorCounts, Shape};

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::RecordPtr;
use crate::removal::RemovalStatus;
use crate::resilver::ResilverStatus;
use crate::scrub::ScrubStatus;
use crate::wire::{Reader, Writer};

const MAGIC: u32 = u32::from_le_bytes(*b"CONF");
/// Devices are in groups of one, and nothing more is known of them.
const VERSION_PLAIN: u16 = 1;
/// Groups may have several members.
const VERSION_REDUNDANT: u16 = 2;
/// Groups may have parity.
const VERSION_PARITY: u16 = 3;
/// Groups may be for logs, or gone.
const VERSION_ROLES: u16 = 4;
/// Groups that hold data may go.
const VERSION_REMOVAL: u16 = 5;

/// Groups that hold no data have no more segments than this together, there or not.
pub(crate) const ROLE_SEGMENTS_MAX: u32 = 1 << 20;

/// A pool has no more cache devices than this.
pub(crate) const CACHES_MAX: usize = 64;

/// The group of a device that is in none.
pub(crate) const NO_GROUP: u16 = store::layout::NO_GROUP;

/// It was set aside until the next import only.
const FLAG_TEMPORARY: u8 = 1;
/// It was a spare before.
const FLAG_WAS_SPARE: u8 = 2;

/// What a device of a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DeviceState {
    /// It holds everything that its group does.
    #[default]
    Online = 0,
    /// It is being brought up to date.
    Resilvering = 1,
    /// Somebody took it offline.
    Offline = 2,
    /// It failed.
    Faulted = 3,
    /// It was not there when the pool was imported.
    Missing = 4,
    /// It waits to take the place of another one.
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

    /// What the store is to do with it.
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
    /// Which column of a group with parity it holds; else 0.
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

    /// Whether it has held all that its group held, at some time.
    fn was_whole(&self) -> bool {
        self.state == DeviceState::Online || self.from_txg > 0
    }

    /// The device whose place it has taken for good.
    pub(crate) fn replaced(&self) -> Option<u64> {
        let is_done = self.state == DeviceState::Online && !self.was_spare;
        (is_done && self.replaces != 0).then_some(self.replaces)
    }

    /// Whether it is, or should be, a member of a group.
    pub(crate) fn is_member(&self) -> bool {
        self.state != DeviceState::Spare
    }
}

/// What a group is there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Records and all else.
    #[default]
    Data = 0,
    /// Logs only. The pool can do without it.
    Logs = 1,
    /// Nothing: it was removed. Its number stays, since segments are counted group by group.
    Gone = 2,
    /// Records, which are being copied to other groups.
    Leaving = 3,
    /// Nothing: it was removed, and the remap table says where what it held is now.
    Moved = 4,
}

impl Purpose {
    /// Whether the pool needs the devices of the group for what it holds.
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

/// A part of the pool's past: from one import on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Drawn at the import.
    pub(crate) guid: u64,
    /// Its first transaction group.
    pub(crate) start: u64,
}

/// A device that holds copies only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigCache {
    pub(crate) guid: u64,
    pub(crate) size: u64,
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
    /// Whether the pool knows of groups with several members. The rest is empty if not.
    pub(crate) is_redundant: bool,
    /// How the groups lay out what they hold, if any has parity; those that are not here have none.
    pub(crate) shapes: Vec<Shape>,
    /// What the groups are there for; those that are not here hold data.
    pub(crate) roles: Vec<Role>,
    /// The removal of a group that held data that is under way, or the last one.
    pub(crate) removal: Option<RemovalStatus>,
    /// The past, as far back as any device may be.
    pub(crate) epochs: Vec<Epoch>,
    /// The resilver under way, or the last one.
    pub(crate) resilver: ResilverStatus,
    /// Devices of the second-level cache. They stand at the end of the record: programs that do not know of
    /// them do without.
    pub(crate) caches: Vec<ConfigCache>,
}

impl Config {
    pub(crate) fn load(disk: &Disk, ptr: &RecordPtr) -> Result<Config> {
        Config::decode(&disk.clear_record(ptr)?)
            .ok_or_else(|| Error::inconsistent("configuration", "it cannot be read"))
    }

    /// The devices of a group.
    pub(crate) fn group(&self, group: u16) -> impl Iterator<Item = &ConfigDevice> {
        let members = self.devices.iter().filter(|device| device.is_member());
        members.filter(move |device| device.group == group)
    }

    /// How a group lays out what it holds.
    pub(crate) fn shape(&self, group: u16) -> Shape {
        let shape = self.shapes.get(usize::from(group));
        shape.copied().unwrap_or(Shape::WHOLE)
    }

    /// What a group is there for.
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

    /// What the groups are there for.
    pub(crate) fn purposes(&self) -> impl Iterator<Item = Purpose> {
        let listed = self.roles.iter().map(|role| role.purpose);
        listed.chain(std::iter::repeat(Purpose::Data))
    }

    /// Groups that are gone, and behind which there is no other, need no numbers. How many are left of so
    /// many groups.
    pub(crate) fn forget_last_gone(&mut self, mut groups: u32) -> u32 {
        while self.roles.len() == groups as usize
            && self
                .roles
                .pop_if(|role| role.purpose == Purpose::Gone)
                .is_some()
        {
            groups -= 1;
        }
        groups
    }

    /// Whether a device, or several together, can tell what is in the logs of a group: nobody has failed
    /// to write there what somebody was told is durable.
    pub(crate) fn knows_logs(&self, group: u16) -> bool {
        self.purpose(group).holds_data()
            || self.group(group).any(|device| match device.state {
                DeviceState::Online => true,
                DeviceState::Resilvering => self.is_sole(device),
                _ => false,
            })
    }

    /// Whether nobody else in its group was ever whole. One that was to become that has nothing that this
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

    /// How many segments groups have that hold no data.
    pub(crate) fn role_segments(&self) -> u32 {
        let segments = self.roles.iter().map(|role| role.segments);
        segments.fold(0, u32::saturating_add)
    }

    /// Whether the devices of a group that are `whole` hold all of it together.
    pub(crate) fn is_complete(&self, group: u16, whole: impl Fn(&ConfigDevice) -> bool) -> bool {
        self.columns(group, whole) >= self.shape(group).needed()
    }

    /// How many columns of a group have a device that is `whole`.
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

    /// The device with a guid.
    pub(crate) fn device(&mut self, guid: u64) -> Option<&mut ConfigDevice> {
        self.devices.iter_mut().find(|device| device.guid == guid)
    }

    /// Whether what groups are for is possible: who reads it makes room for their segments.
    fn roles_can_be(&self) -> bool {
        let has_parity = |group| self.shape(group).has_parity();
        !self.roles.is_empty()
            && self.role_segments() <= ROLE_SEGMENTS_MAX
            && !self.dispensable().any(|(group, _)| has_parity(group))
    }

    /// Whether the group that is leaving, if there is one, is the one that is being removed.
    fn removal_can_be(&self) -> bool {
        let removal = self.removal.as_ref();
        let removal = removal.filter(|removal| removal.is_under_way());
        let is_leaving = |role: &&Role| role.purpose == Purpose::Leaving;
        self.roles.iter().filter(is_leaving).count() <= 1
            && self.leaving() == removal.map(|removal| removal.group)
    }

    /// Whether a device is in a column that its group has.
    fn has_column(&self, device: &ConfigDevice) -> bool {
        let columns = match device.is_member() {
            true => self.shape(device.group).columns(),
            false => 1,
        };
        usize::from(device.column) < columns
    }

    fn version(&self) -> u16 {
        match (self.is_redundant, self.shapes.is_empty()) {
            _ if self.removal.is_some() => VERSION_REMOVAL,
            _ if !self.roles.is_empty() => VERSION_ROLES,
            (_, false) => VERSION_PARITY,
            (true, _) => VERSION_REDUNDANT,
            (false, _) => VERSION_PLAIN,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        let version = self.version();
        let has_shapes = version >= VERSION_PARITY;
        w.u32(MAGIC).u16(version).u16(self.devices.len() as u16);
        w.u32(self.wipe.len() as u32);
        w.value(&self.scrub.to_record());
        if self.is_redundant {
            w.value(&self.resilver.to_record());
            w.u32(self.epochs.len() as u32);
            for epoch in &self.epochs {
                w.u64(epoch.guid).u64(epoch.start);
            }
        }
        if has_shapes {
            w.u16(self.shapes.len() as u16);
            for shape in &self.shapes {
                w.u8(shape.columns() as u8).u8(shape.parity() as u8);
            }
        }
        if version >= VERSION_ROLES {
            w.u16(self.roles.len() as u16);
            for role in &self.roles {
                w.u8(role.purpose as u8).u32(role.segments);
            }
        }
        if let Some(removal) = &self.removal {
            w.value(&removal.to_record()).text(&removal.name);
        }
        for device in &self.devices {
            w.u64(device.guid).u16(device.group).u64(device.size);
            w.text(&device.path);
            if self.is_redundant {
                put_state(&mut w, device);
            }
            if has_shapes {
                w.u16(device.column);
            }
        }
        for block in &self.wipe {
            w.u32(*block);
        }
        if !self.caches.is_empty() {
            w.u16(self.caches.len() as u16);
            for cache in &self.caches {
                w.u64(cache.guid).u64(cache.size).text(&cache.path);
            }
        }
        w.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Config> {
        let mut r = Reader::new(bytes);
        if r.u32()? != MAGIC {
            return None;
        }
        let version = r.u16()?;
        if !(VERSION_PLAIN..=VERSION_REMOVAL).contains(&version) {
            return None;
        }
        let is_redundant = version >= VERSION_REDUNDANT;
        let devices = r.u16()?;
        let wipe = r.u32()?;
        let mut config = Config {
            scrub: ScrubStatus::from_record(&r.value()?)?,
            is_redundant,
            ..Config::default()
        };
        if is_redundant {
            config.resilver = ResilverStatus::from_record(&r.value()?)?;
            let epochs = 0..r.u32()?;
            config.epochs = epochs.map(|_| take_epoch(&mut r)).collect::<Option<_>>()?;
        }
        if version >= VERSION_PARITY {
            let shapes = 0..r.u16()?;
            config.shapes = shapes.map(|_| take_shape(&mut r)).collect::<Option<_>>()?;
            if config.shapes.is_empty() && version == VERSION_PARITY {
                return None;
            }
        }
        if version >= VERSION_ROLES {
            let roles = 0..r.u16()?;
            config.roles = roles
                .map(|_| take_role(&mut r, version))
                .collect::<Option<_>>()?;
            if !config.roles_can_be() {
                return None;
            }
        }
        if version >= VERSION_REMOVAL {
            let mut removal = RemovalStatus::from_record(&r.value()?)?;
            removal.name = r.text()?;
            config.removal = Some(removal);
        }
        if !config.removal_can_be() {
            return None;
        }
        let devices = 0..devices;
        config.devices = devices
            .map(|_| take_device(&mut r, version))
            .collect::<Option<_>>()?;
        if !config
            .devices
            .iter()
            .all(|device| config.has_column(device))
        {
            return None;
        }
        config.wipe = (0..wipe).map(|_| r.u32()).collect::<Option<_>>()?;
        // Nothing is there, or zeros, if there are none.
        let caches = 0..r.u16().unwrap_or(0);
        if usize::from(caches.end) > CACHES_MAX {
            return None;
        }
        config.caches = caches.map(|_| take_cache(&mut r)).collect::<Option<_>>()?;
        Some(config)
    }
}

fn take_shape(r: &mut Reader<'_>) -> Option<Shape> {
    let (columns, parity) = (r.u8()?, r.u8()?);
    Shape::new(columns.into(), parity.into())
}

fn take_role(r: &mut Reader<'_>, version: u16) -> Option<Role> {
    let knows_removal = version >= VERSION_REMOVAL;
    let (purpose, segments) = (r.u8()?, r.u32()?);
    let purpose = match purpose {
        0 if segments == 0 => Purpose::Data,
        1 if segments > 0 => Purpose::Logs,
        2 if segments > 0 => Purpose::Gone,
        3 if segments == 0 && knows_removal => Purpose::Leaving,
        4 if segments > 0 && knows_removal => Purpose::Moved,
        _ => return None,
    };
    Some(Role { purpose, segments })
}

fn take_cache(r: &mut Reader<'_>) -> Option<ConfigCache> {
    Some(ConfigCache {
        guid: r.u64()?,
        size: r.u64()?,
        path: r.text()?,
    })
}

fn take_epoch(r: &mut Reader<'_>) -> Option<Epoch> {
    Some(Epoch {
        guid: r.u64()?,
        start: r.u64()?,
    })
}

fn put_state(w: &mut Writer, device: &ConfigDevice) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(device.is_temporary, FLAG_TEMPORARY) | flag(device.was_spare, FLAG_WAS_SPARE);
    w.u8(device.state as u8).u8(flags);
    w.u64(device.from_txg).u64(device.replaces);
    let errors = &device.errors;
    w.u64(errors.read).u64(errors.write).u64(errors.checksum);
}

fn take_device(r: &mut Reader<'_>, version: u16) -> Option<ConfigDevice> {
    let plain = ConfigDevice {
        guid: r.u64()?,
        group: r.u16()?,
        size: r.u64()?,
        path: r.text()?,
        ..ConfigDevice::default()
    };
    if version < VERSION_REDUNDANT {
        return Some(plain);
    }
    let state = DeviceState::from_number(r.u8()?)?;
    let flags = r.u8()?;
    if flags & !(FLAG_TEMPORARY | FLAG_WAS_SPARE) != 0 {
        return None;
    }
    Some(ConfigDevice {
        state,
        is_temporary: flags & FLAG_TEMPORARY != 0,
        was_spare: flags & FLAG_WAS_SPARE != 0,
        from_txg: r.u64()?,
        replaces: r.u64()?,
        errors: ErrorCounts {
            read: r.u64()?,
            write: r.u64()?,
            checksum: r.u64()?,
        },
        column: if version < VERSION_PARITY {
            0
        } else {
            r.u16()?
        },
        ..plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> ConfigDevice {
        ConfigDevice {
            guid: 1,
            group: 2,
            size: 3,
            path: "/dev/disk".into(),
            ..ConfigDevice::default()
        }
    }

    fn round_trip(config: Config) {
        let bytes = config.encode();
        assert_eq!(Config::decode(&bytes), Some(config));
        for len in 0..bytes.len() {
            assert_eq!(Config::decode(&bytes[..len]), None);
        }
        let mut huge = bytes;
        huge[8..12].fill(0xff);
        assert_eq!(Config::decode(&huge), None);
    }

    #[test]
    fn round_trip_and_total() {
        round_trip(Config {
            devices: vec![device()],
            wipe: vec![4, 5],
            ..Config::default()
        });
        round_trip(Config {
            devices: vec![
                ConfigDevice {
                    state: DeviceState::Resilvering,
                    from_txg: 6,
                    replaces: 7,
                    was_spare: true,
                    errors: ErrorCounts {
                        read: 8,
                        write: 9,
                        checksum: 10,
                    },
                    ..device()
                },
                ConfigDevice {
                    state: DeviceState::Offline,
                    is_temporary: true,
                    ..device()
                },
            ],
            wipe: vec![4, 5],
            is_redundant: true,
            epochs: vec![Epoch { guid: 1, start: 2 }],
            ..Config::default()
        });
        round_trip(with_parity());
    }

    fn with_parity() -> Config {
        Config {
            devices: vec![ConfigDevice {
                column: 4,
                ..device()
            }],
            is_redundant: true,
            shapes: vec![Shape::WHOLE, Shape::WHOLE, Shape::new(5, 2).unwrap()],
            ..Config::default()
        }
    }

    fn with_logs() -> Config {
        let role = |purpose, segments| Role { purpose, segments };
        Config {
            devices: vec![device()],
            is_redundant: true,
            roles: vec![
                Role::default(),
                role(Purpose::Gone, 9),
                role(Purpose::Logs, 8),
            ],
            ..Config::default()
        }
    }

    #[test]
    fn groups_that_hold_no_data_round_trip_and_cannot_be_huge() {
        round_trip(with_logs());
        round_trip(Config {
            shapes: vec![Shape::new(3, 1).unwrap()],
            ..with_logs()
        });
        let mut config = with_logs();
        assert_eq!(config.purpose(1), Purpose::Gone);
        assert_eq!(config.purpose(3), Purpose::Data);
        assert_eq!(config.dispensable().collect::<Vec<_>>(), [(1, 9), (2, 8)]);
        config.set_role(
            5,
            Role {
                purpose: Purpose::Logs,
                segments: ROLE_SEGMENTS_MAX - 17,
            },
        );
        round_trip(config.clone());
        config.roles[5].segments += 1;
        assert_eq!(Config::decode(&config.encode()), None);
        let mut parity = with_logs();
        parity.shapes = vec![Shape::new(3, 1).unwrap(); 3];
        assert_eq!(Config::decode(&parity.encode()), None, "logs with parity");
    }

    #[test]
    fn the_group_that_leaves_is_the_one_that_is_removed() {
        let mut config = with_logs();
        config.removal = Some(RemovalStatus {
            group: 3,
            started: 4,
            total: 5,
            moved_till: 6,
            name: "mirror-3".into(),
            ..RemovalStatus::default()
        });
        let leave = |config: &mut Config, group| {
            let role = Role {
                purpose: Purpose::Leaving,
                segments: 0,
            };
            config.set_role(group, role);
        };
        assert_eq!(Config::decode(&config.encode()), None, "none leaves");
        leave(&mut config, 3);
        round_trip(config.clone());
        leave(&mut config, 0);
        assert_eq!(Config::decode(&config.encode()), None, "two leave");
        config.set_role(0, Role::default());
        config.removal.as_mut().unwrap().group = 0;
        assert_eq!(Config::decode(&config.encode()), None, "another leaves");
        config.removal.as_mut().unwrap().phase = crate::RemovalPhase::Finished;
        config.roles[3].purpose = Purpose::Moved;
        assert_eq!(Config::decode(&config.encode()), None, "without segments");
        config.roles[3].segments = 7;
        round_trip(config);
    }

    #[test]
    fn cache_devices_are_behind_what_older_programs_read() {
        let without = Config {
            wipe: vec![4, 5],
            ..with_logs()
        };
        let cache = ConfigCache {
            guid: 9,
            size: 10,
            path: "/dev/fast".into(),
        };
        let with = Config {
            caches: vec![cache.clone(), cache.clone()],
            ..without.clone()
        };
        let (short, long) = (without.encode(), with.encode());
        assert!(long.starts_with(&short));
        assert_eq!(Config::decode(&long), Some(with));
        assert_eq!(
            Config::decode(&crate::wire::pad(short.clone())),
            Some(without)
        );
        for len in short.len() + 2..long.len() {
            assert_eq!(Config::decode(&long[..len]), None);
        }
        let many = Config {
            caches: vec![cache; CACHES_MAX + 1],
            ..with_logs()
        };
        assert_eq!(Config::decode(&many.encode()), None);
    }

    #[test]
    fn columns_that_a_group_does_not_have_are_refused() {
        let mut config = with_parity();
        config.devices[0].column = 5;
        assert_eq!(Config::decode(&config.encode()), None);
        config.devices[0].group = 1;
        assert_eq!(Config::decode(&config.encode()), None);
        config.devices[0].column = 0;
        assert_eq!(Config::decode(&config.encode()), Some(config));
    }

    #[test]
    fn a_group_is_complete_with_enough_columns() {
        let mut config = with_parity();
        let column = |column| ConfigDevice { column, ..device() };
        config.devices = [0, 1, 1, 3].map(column).to_vec();
        assert!(config.is_complete(2, |_| true));
        assert!(!config.is_complete(2, |device| device.column != 3));
        assert!(!config.is_complete(0, |_| true));
    }

    /// What programs before mirrors wrote and read.
    #[test]
    fn a_plain_pool_keeps_the_first_version() {
        let config = Config {
            devices: vec![device()],
            ..Config::default()
        };
        let bytes = config.encode();
        assert_eq!(bytes[4..8], [1, 0, 1, 0]);
        assert_eq!(bytes.len(), 84 + 8 + 2 + 8 + 2 + 9);
        let mut redundant = config;
        redundant.is_redundant = true;
        assert_eq!(redundant.encode()[4..6], [2, 0]);
    }
}
