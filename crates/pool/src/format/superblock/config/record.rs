//! The record of the configuration.
//!
//! A pool in which no group has ever had more than one device has version 1 of it, which lists paths and
//! sizes only. Version 2 belongs to the feature [`FEATURE_REDUNDANT`], version 3 to [`FEATURE_PARITY`],
//! version 4 to [`FEATURE_LOG_DEVICES`], version 5 to [`FEATURE_REMOVED`].
//!
//! [`FEATURE_REDUNDANT`]: crate::format::superblock::features::FEATURE_REDUNDANT
//! [`FEATURE_PARITY`]: crate::format::superblock::features::FEATURE_PARITY
//! [`FEATURE_LOG_DEVICES`]: crate::format::superblock::features::FEATURE_LOG_DEVICES
//! [`FEATURE_REMOVED`]: crate::format::superblock::features::FEATURE_REMOVED

use std::collections::BTreeMap;

use store::{ErrorCounts, Shape};

use super::{
    CACHES_MAX, Config, ConfigCache, ConfigDevice, ConfigFollower, DeviceState, Epoch, Purpose,
    ROLE_SEGMENTS_MAX, Role, SPLITS_MAX, STRETCHES_MAX, Stretch,
};
use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::jobs::removal_status::RemovalStatus;
use crate::format::jobs::resilver_status::ResilverStatus;
use crate::format::jobs::scrub_status::ScrubStatus;

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

/// The device was set aside until the next import only.
const FLAG_TEMPORARY: u8 = 1;
/// The device was a spare before.
const FLAG_WAS_SPARE: u8 = 2;

impl Config {
    /// Returns whether what groups are for is possible: the caller allocates memory for their segments.
    fn roles_can_be(&self) -> bool {
        let has_parity = |group| self.shape(group).has_parity();
        !self.roles.is_empty()
            && self.role_segments() <= ROLE_SEGMENTS_MAX
            && !self.dispensable().any(|(group, _)| has_parity(group))
    }

    /// Returns whether the group that is leaving, if there is one, is the one that is being removed.
    fn removal_can_be(&self) -> bool {
        let removal = self.removal.as_ref();
        let removal = removal.filter(|removal| removal.is_under_way());
        let is_leaving = |role: &&Role| role.purpose == Purpose::Leaving;
        self.roles.iter().filter(is_leaving).count() <= 1
            && self.leaving() == removal.map(|removal| removal.group)
    }

    /// Returns whether there are so many segments, and those of a group with parity can be shared out.
    fn stretches_can_be(&self) -> bool {
        let mut counts = BTreeMap::<u16, u32>::new();
        let all = self.stretches.iter().all(|stretch| {
            let columns = self.shape(stretch.group).columns() as u32;
            let count = counts.entry(stretch.group).or_default();
            let sum = count.checked_add(stretch.segments);
            *count = sum.unwrap_or(0);
            sum.is_some() && stretch.segments > 0 && stretch.segments.is_multiple_of(columns)
        });
        all && self.stretches.len() <= STRETCHES_MAX
    }

    /// Returns whether a device is in a column that its group has.
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
        let mut w = ValueWriter::default();
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
        let unreadable = [self.scrub.unreadable, self.resilver.progress.unreadable];
        let has_splits = !self.splits.is_empty() || self.follower.is_some();
        let has_unreadable = has_splits || unreadable != [0; 2];
        if !self.caches.is_empty() || !self.stretches.is_empty() || has_unreadable {
            w.u16(self.caches.len() as u16);
            for cache in &self.caches {
                w.u64(cache.guid).u64(cache.size).text(&cache.path);
            }
        }
        if !self.stretches.is_empty() || has_unreadable {
            w.u16(self.stretches.len() as u16);
            for stretch in &self.stretches {
                w.u16(stretch.group).u32(stretch.segments);
            }
        }
        if has_unreadable {
            w.u64(unreadable[0]).u64(unreadable[1]);
        }
        if has_splits {
            w.u16(self.splits.len() as u16);
            for guid in &self.splits {
                w.u64(*guid);
            }
        }
        if let Some(follower) = &self.follower {
            w.u16(1).u32(follower.interval).u64(follower.since);
            w.text(&follower.path);
        }
        w.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Config> {
        let mut r = ValueReader::new(bytes);
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
        let stretches = 0..r.u16().unwrap_or(0);
        config.stretches = stretches
            .map(|_| take_stretch(&mut r))
            .collect::<Option<_>>()?;
        for scan in [&mut config.scrub, &mut config.resilver.progress] {
            scan.unreadable = r.u64().unwrap_or(0).min(scan.errors);
        }
        let splits = 0..r.u16().unwrap_or(0);
        if usize::from(splits.end) > SPLITS_MAX {
            return None;
        }
        config.splits = splits.map(|_| r.u64()).collect::<Option<_>>()?;
        config.follower = match r.u16().unwrap_or(0) {
            0 => None,
            1 => Some(ConfigFollower {
                interval: r.u32()?,
                since: r.u64()?,
                path: r.text()?,
            }),
            _ => return None,
        };
        config.stretches_can_be().then_some(config)
    }
}

fn take_shape(r: &mut ValueReader<'_>) -> Option<Shape> {
    let (columns, parity) = (r.u8()?, r.u8()?);
    Shape::new(columns.into(), parity.into())
}

fn take_role(r: &mut ValueReader<'_>, version: u16) -> Option<Role> {
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

fn take_cache(r: &mut ValueReader<'_>) -> Option<ConfigCache> {
    Some(ConfigCache {
        guid: r.u64()?,
        size: r.u64()?,
        path: r.text()?,
    })
}

fn take_stretch(r: &mut ValueReader<'_>) -> Option<Stretch> {
    Some(Stretch {
        group: r.u16()?,
        segments: r.u32()?,
    })
}

fn take_epoch(r: &mut ValueReader<'_>) -> Option<Epoch> {
    Some(Epoch {
        guid: r.u64()?,
        start: r.u64()?,
    })
}

fn put_state(w: &mut ValueWriter, device: &ConfigDevice) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(device.is_temporary, FLAG_TEMPORARY) | flag(device.was_spare, FLAG_WAS_SPARE);
    w.u8(device.state as u8).u8(flags);
    w.u64(device.from_txg).u64(device.replaces);
    let errors = &device.errors;
    w.u64(errors.read).u64(errors.write).u64(errors.checksum);
}

fn take_device(r: &mut ValueReader<'_>, version: u16) -> Option<ConfigDevice> {
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
mod tests;
