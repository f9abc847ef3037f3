//! Devices that became larger, and the groups that have more space for it.
//!
//! The new space of a device can be used when the header at its end has moved. The group gets more segments when
//! each of its devices has space for them. A commit lists the new segments. Nothing is placed there before this
//! commit is durable.

use store::{MemberInfo, MemberState, UNIT};

use crate::engine::history::{Origin, log};
use crate::error::{Error, Result};
use crate::format::superblock::config::{
    Config, ConfigDevice, DeviceState, Purpose, STRETCHES_MAX,
};
use crate::format::superblock::features::FEATURE_GROWN;
use crate::ops::pool::Pool;

/// Segments of a group are numbered below this in a gang map, in units.
const GROUP_UNITS_MAX: u64 = 1 << 40;

const NOT_IN_USE: &str = "it is not in use; bring it online first, without -e";

/// The possible gain from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expandable {
    /// The guid of the device.
    pub guid: u64,
    /// The bytes of the device that the pool does not use.
    pub unused: u64,
    /// The bytes for records that its group would gain if all of its devices were used completely.
    pub gain: u64,
}

/// The gain of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolGrowth {
    /// Bytes of the device that the pool uses now and did not before.
    pub device: u64,
    /// Bytes for records.
    pub records: u64,
}

/// The possible size of a group.
struct Growth {
    /// The number of segments on each device after the growth.
    each: u32,
    /// The number of segments that the growth adds in all, parity included.
    added: u32,
}

impl Pool {
    /// The possible gain from each device that became larger; none while there is a checkpoint.
    pub fn expandable(&self) -> Vec<Expandable> {
        let store = &self.engine.disk.store;
        store.refresh_sizes();
        let members = store.members();
        let config = {
            let state = self.engine.state.read();
            if state.checkpoint.is_some() {
                return Vec::new();
            }
            state.config.clone()
        };
        let devices = config
            .devices
            .iter()
            .filter(|device| can_grow(&config, device).is_ok());
        let all = devices.filter_map(|device| {
            let mut working = members.iter().filter(|member| !has_failed(member));
            let member = working.find(|member| member.guid == device.guid)?;
            let unused = match member.segments_extended > member.segments {
                true => member.present.saturating_sub(member.size),
                false => 0,
            };
            let growth = self.growth_of(&config, device.group, &members, &|m| m.segments_extended);
            let gain = self.engine.space.gain(device.group, growth.added);
            (unused > 0 || gain > 0).then_some(Expandable {
                guid: device.guid,
                unused,
                gain,
            })
        });
        all.collect()
    }

    /// Uses all of a device that became larger, and the new segments of its group.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is not one that can grow, or is smaller than it was.
    pub fn expand_device(&self, guid: u64, origin: &Origin) -> Result<PoolGrowth> {
        self.engine.state.read().refuse_with_checkpoint()?;
        let engine = &self.engine;
        engine.check_writable()?;
        let committing = engine.lock_commits();
        let device = {
            let mut config = engine.state.read().config.clone();
            let device = config
                .device(guid)
                .ok_or_else(|| Error::no_device(guid))?
                .clone();
            can_grow(&config, &device).map_err(|reason| Error::of_device(&device.path, reason))?;
            device
        };
        let store = &engine.disk.store;
        // The configuration learns that with the next commit. Until then the device must not look as new as others.
        let mut members = store.members().into_iter();
        if members.any(|member| member.guid == guid && has_failed(&member)) {
            return Err(Error::of_device(&device.path, NOT_IN_USE));
        }
        // What is written to the headers from now on goes to the new end too.
        let (txg, superblock) = store
            .superblocks()?
            .into_iter()
            .next()
            .ok_or(Error::from(store::Error::NoSuperblock))?;
        let blocks = engine.key_blocks_in_use();
        let extended = store.extend(guid, &blocks, (txg, &superblock));
        extended.map_err(|error| match error {
            store::Error::Truncated {
                actual, expected, ..
            } => Error::of_device(&device.path, too_short(actual, expected)),
            error => error.into(),
        })?;
        store.wipe_end(guid, device.size)?;
        let gained = engine.commit_holding(&committing, |commit, state| {
            let members = store.members();
            let member = members.iter().find(|member| member.guid == guid);
            let size = member.map_or(device.size, |member| member.size);
            let growth = self.growth_of(&state.config, device.group, &members, &|m| m.segments);
            let gained = PoolGrowth {
                device: size.saturating_sub(device.size),
                records: engine.space.gain(device.group, growth.added),
            };
            if gained == PoolGrowth::default() {
                return Ok(gained);
            }
            state.device(guid)?.size = size;
            if growth.added > 0 {
                let columns = state.config.shape(device.group).columns() as u32;
                store.set_segments(device.group, growth.each * columns)?;
                engine.space.extend(device.group, growth.added);
                engine.disk.grow();
                state.config.stretches = engine.space.numbering().stretches();
                state.root.features_required |= FEATURE_GROWN;
            }
            log(commit, state, origin, None);
            Ok(gained)
        })?;
        engine.space.open_extended();
        Ok(gained)
    }

    /// The possible size of a group: `has` gives the number of segments of each present device. For a missing
    /// device its last size counts.
    fn growth_of(
        &self,
        config: &Config,
        group: u16,
        members: &[MemberInfo],
        has: &dyn Fn(&MemberInfo) -> u32,
    ) -> Growth {
        let store = &self.engine.disk.store;
        let listed = config.group(group).map(|device| {
            let member = members.iter().find(|member| member.guid == device.guid);
            member.map_or_else(|| store.segments_in(device.size), has)
        });
        // One that is about to be listed counts too.
        let others = members.iter().filter(|m| !m.is_spare && m.group == group);
        let each = listed.chain(others.map(has)).min().unwrap_or(0);
        let columns = config.shape(group).columns() as u32;
        let units = u64::from(store.segment_size() / UNIT) * u64::from(columns);
        let most = (GROUP_UNITS_MAX / units).min(u64::from(u32::MAX / columns)) as u32;
        let now = store.groups().get(usize::from(group)).copied().unwrap_or(0) / columns;
        let is_numbered = config.stretches.len() < STRETCHES_MAX;
        let each = each.min(most).max(now);
        let added = if is_numbered {
            (each - now) * columns
        } else {
            0
        };
        Growth { each, added }
    }
}

/// Checks that a device can grow, or says why it cannot.
fn can_grow(config: &Config, device: &ConfigDevice) -> std::result::Result<(), &'static str> {
    if !device.is_member() {
        return Err("it is a spare, and is used whole when it takes the place of another device");
    }
    match config.purpose(device.group) {
        Purpose::Data => {}
        Purpose::Leaving => {
            return Err("its group is being removed; stop that first (pool remove -s)");
        }
        Purpose::Logs | Purpose::Gone | Purpose::Moved => {
            return Err("it is a log device; remove it and add it again");
        }
    }
    match device.state {
        DeviceState::Online => Ok(()),
        DeviceState::Resilvering => Err("it is being resilvered; it can grow when that is done"),
        _ => Err(NOT_IN_USE),
    }
}

fn has_failed(member: &MemberInfo) -> bool {
    member.state == MemberState::Faulted
}

fn too_short(actual: u64, expected: u64) -> String {
    format!(
        "it became smaller: it has {actual} bytes, and the pool uses {expected}; a pool does not shrink, \
         make it {expected} bytes large again"
    )
}
