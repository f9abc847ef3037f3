//! Adds, removes and replaces the devices of a pool, and handles failed ones.
//!
//! The configuration lists the devices of the pool. A new device gets its label first, and is listed with the next
//! commit. A leaving device is removed from the list first, and erased when that is durable. So after a power cut,
//! a device either belongs to the pool or is not used.

pub(crate) mod caches;
pub(crate) mod claims;
mod expand;
pub(crate) mod freeing;
mod info;
pub(crate) mod logs;
mod new_group;
pub(crate) mod removal;
pub(crate) mod resilver;
mod spares;
pub(crate) mod sweep;

use std::sync::Arc;
use std::time::Duration;

use store::{
    BlockDevice, DeviceAssignment, ErrorCounts, Joins, LateDevice, MemberState, NewMember,
};

use crate::engine::devices::device_changes::ReplacedMembers;
use crate::engine::devices::membership;
use crate::engine::gate::CommitEngine;
use crate::engine::history::{Origin, log};
use crate::error::{Error, Result};
use crate::format::superblock::config::{ConfigDevice, DeviceState, Purpose};
use crate::format::superblock::root::DEVICES_MAX;
use crate::ops::devices::new_group::add_group;
use crate::ops::pool::Pool;
pub use expand::{Expandable, PoolGrowth};
pub use info::DeviceInfo;

impl Pool {
    /// The devices, by group and column, then the spares.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        let present = self.engine.disk.store.members();
        let failed = self.engine.suspension.device();
        let state = self.engine.state.visible();
        let devices = state.config.devices.iter();
        let mut all: Vec<DeviceInfo> = devices
            .map(|device| DeviceInfo::new(&state.config, device, &present, failed.as_deref()))
            .collect();
        all.sort_by_key(|device| (device.group.map_or(u32::MAX, u32::from), device.column));
        all
    }

    /// The device with a guid, or with a path.
    ///
    /// # Errors
    /// [`Error::Device`] if the pool has no such device.
    pub fn find_device(&self, name: &str) -> Result<DeviceInfo> {
        let by_guid = name.parse::<u64>().ok();
        let devices = self.devices();
        let is_it = |device: &&DeviceInfo| device.path == name || Some(device.guid) == by_guid;
        devices
            .iter()
            .find(is_it)
            .cloned()
            .ok_or_else(|| Error::Device {
                device: name.into(),
                reason: format!("pool '{}' has no such device", self.name()),
            })
    }

    /// Makes `new` a member of the group of the device `beside`. With `replaces` it takes the place of `beside`
    /// after the resilver.
    ///
    /// # Errors
    /// [`Error::Device`] if `beside` is no member, if its group is being removed or has
    /// parity, if another device takes its place already, or if the pool has the maximum of devices;
    /// [`Error::Store`] if `new` does not fit or fails; as [`Pool::commit`].
    pub fn attach_device(
        &self,
        beside: u64,
        new: &NewMember,
        replaces: bool,
        origin: &Origin,
    ) -> Result<()> {
        self.engine.state.read().refuse_with_checkpoint()?;
        self.engine.check_writable()?;
        let joins = {
            let mut config = self.engine.state.read().config.clone();
            let mut others = config.devices.iter();
            let taken = others.find(|device| device.replaces == beside && !device.was_spare);
            if let Some(other) = taken.filter(|_| replaces) {
                let reason = format!(
                    "{0} is taking its place already; replace {0}, or detach it first",
                    other.path
                );
                return Err(Error::of_device(&new.device.name(), reason));
            }
            if config.devices.len() >= DEVICES_MAX {
                let reason = format!("the pool has {DEVICES_MAX} devices, and can have no more");
                return Err(Error::of_device(&new.device.name(), reason));
            }
            let device = config
                .device(beside)
                .ok_or_else(|| Error::no_device(beside))?
                .clone();
            if !device.is_member() {
                return Err(Error::of_device(
                    &device.path,
                    "it is a spare, and holds nothing",
                ));
            }
            let (group, column) = (device.group, device.column);
            if config.leaving() == Some(group) {
                let reason = "its group is being removed; stop that first (pool remove -s)";
                return Err(Error::of_device(&device.path, reason));
            }
            if config.shape(group).has_parity() && !replaces {
                let reason = "its group has parity, and the devices of such a group cannot be \
                              mirrored; replace one instead";
                return Err(Error::of_device(&device.path, reason));
            }
            Joins::Group { group, column }
        };
        let info = self.engine.disk.store.join(new, joins)?;
        let listed = self.engine.commit_with(|commit, state| {
            let mut device = ConfigDevice::new(&info);
            device.state = DeviceState::Resilvering;
            device.replaces = if replaces { beside } else { 0 };
            state.config.devices.push(device);
            state.devices_changed(commit);
            log(commit, state, origin, None);
            Ok(())
        });
        self.engine.or_let_go(&[new.guid], listed)
    }

    /// Adds a group of devices to the pool: a mirror, or a group with parity. It is empty, and gets later writes.
    ///
    /// # Errors
    /// [`Error::Store`] if the devices do not fit together, or one fails; as
    /// [`Pool::commit`].
    pub fn add_group(&self, devices: &[NewMember], parity: usize, origin: &Origin) -> Result<()> {
        add_group(&self.engine, devices, parity, Purpose::Data, origin)
    }

    /// Checks whether [`Pool::add_group`] would refuse these devices. It writes nothing.
    ///
    /// # Errors
    /// As [`Pool::add_group`].
    pub fn check_group(&self, devices: &[NewMember], parity: usize) -> Result<()> {
        self.engine.check_writable()?;
        let store = &self.engine.disk.store;
        Ok(store.check_group(devices, parity, u32::MAX)?)
    }

    /// Checks whether [`Pool::add_spare`] would refuse a device. It writes nothing.
    ///
    /// # Errors
    /// As [`Pool::add_spare`].
    pub fn check_spare(&self, new: &NewMember) -> Result<()> {
        self.engine.check_writable()?;
        Ok(self.engine.disk.store.check_spare(new)?)
    }

    /// Makes a device a spare.
    ///
    /// # Errors
    /// [`Error::Store`] if the device does not fit or fails; as [`Pool::commit`].
    pub fn add_spare(&self, new: &NewMember, origin: &Origin) -> Result<()> {
        self.engine.check_writable()?;
        let info = self.engine.disk.store.join(new, Joins::Spares)?;
        let listed = self.engine.commit_with(|commit, state| {
            state.config.devices.push(ConfigDevice::new(&info));
            state.make_redundant(commit);
            log(commit, state, origin, None);
            Ok(())
        });
        self.engine.or_let_go(&[new.guid], listed)
    }

    /// Removes a member from its mirror. Another member must have all data.
    ///
    /// # Errors
    /// [`Error::Device`] if it is not a member, is for logs, or no other device holds its
    /// part of the pool; as [`Pool::commit`].
    pub fn detach_device(&self, guid: u64, origin: &Origin) -> Result<()> {
        self.engine.state.read().refuse_with_checkpoint()?;
        let engine = &self.engine;
        let returns = engine.commit_with(|commit, state| {
            let device = state.device(guid)?.clone();
            if !device.is_member() {
                return Err(Error::of_device(
                    &device.path,
                    "it is a spare; remove it instead",
                ));
            }
            if state.config.shape(device.group).has_parity() {
                state.check_is_doubled(&device)?;
            }
            if state.config.purpose(device.group) == Purpose::Logs
                && state.config.group(device.group).count() == 1
            {
                return Err(Error::of_device(
                    &device.path,
                    "it is a log device; remove it instead",
                ));
            }
            let reason = "it is the only device that holds all of its part of the pool";
            state.check_dispensable(commit, guid, reason)?;
            log(commit, state, origin, None);
            state.take_out(commit, guid);
            state.devices_left();
            Ok(device.was_spare)
        })?;
        engine.release(&[guid], returns)
    }

    /// Removes a device whose replacement could not get all data by a resilver. Data that only the old device may have
    /// is lost: reading it is an error from now on.
    ///
    /// # Errors
    /// [`Error::Device`] if no resilver ended that copied what could be copied; as [`Pool::commit`].
    pub fn give_up_device(&self, guid: u64, origin: &Origin) -> Result<()> {
        let engine = &self.engine;
        let ReplacedMembers { devices, spares } = engine.commit_with(|commit, state| {
            let named = state.device(guid)?.clone();
            let config = &mut state.config;
            let present = commit.core.disk.store.members();
            let fills = |device: &ConfigDevice| {
                let mut present = present.iter();
                device.state == DeviceState::Resilvering
                    && present.any(|member| {
                        member.guid == device.guid && member.state == MemberState::Resilvering
                    })
            };
            let takes_place = |device: &&ConfigDevice| {
                device.replaces == guid && !device.was_spare && fills(device)
            };
            let successor = config.devices.iter().find(takes_place);
            let is_over = !config.resilver.is_running();
            // A device that this one replaces would leave with it.
            let Some(successor) = successor.filter(|_| is_over && named.replaces == 0) else {
                let reason = "no INCOMPLETE device is in its place for good; detach it without -f";
                return Err(Error::of_device(&named.path, reason));
            };
            let successor = successor.guid;
            let others = config.devices.iter().map(|device| device.guid);
            let lacking = others.filter(|device| *device != successor).collect();
            config.resilver.lacking.remove(&successor);
            state.config_dirty = true;
            log(commit, state, origin, None);
            Ok(state.settle_resilvered(commit, &lacking))
        })?;
        engine.release(&devices, false)?;
        engine.release(&spares, true)
    }

    /// Removes a spare from the pool.
    ///
    /// # Errors
    /// [`Error::Device`] if it is not a spare of the pool; as [`Pool::commit`].
    pub fn remove_spare(&self, guid: u64, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            let device = state.device(guid)?;
            if device.is_member() {
                let reason = "it is a member of a group, not a spare";
                return Err(Error::of_device(&device.path, reason));
            }
            state.config.devices.retain(|device| device.guid != guid);
            state.config_dirty = true;
            log(commit, state, origin, None);
            Ok(())
        })?;
        self.engine.release(&[guid], false)
    }

    /// Stops using a member until it is brought online, or with `temporary` until the next import at the latest.
    /// Another member must have all data, unless the group is for logs.
    ///
    /// # Errors
    /// [`Error::Device`] if it is not a member, or no other device holds its part of the
    /// pool; as [`Pool::commit`].
    pub fn offline_device(&self, guid: u64, temporary: bool, origin: &Origin) -> Result<()> {
        // A resilver need not repeat the writes that the member still gets.
        self.commit()?;
        let left = self.log_devices().is_last(guid);
        let left = left
            .map(|group| self.log_devices().leave_group(group))
            .transpose()?;
        self.engine.commit_with(|commit, state| {
            let device = state.device(guid)?;
            if !device.is_member() {
                return Err(Error::of_device(
                    &device.path,
                    "it is a spare, and not in use",
                ));
            }
            if left.is_none() {
                let reason = "no other device holds all of its part of the pool";
                state.check_dispensable(commit, guid, reason)?;
            }
            state.leave(guid, DeviceState::Offline, commit.txg - 1);
            state.device(guid)?.is_temporary = temporary;
            commit.core.disk.store.set_state(guid, MemberState::Offline);
            state.devices_left();
            log(commit, state, origin, None);
            Ok(())
        })?;
        Ok(self.engine.disk.store.let_go(guid, false)?)
    }

    /// Sets how long a device may take for a write or a flush that the pool can do without.
    pub fn set_device_deadline(&self, deadline: Duration) {
        self.engine.disk.store.set_deadline(deadline);
    }

    /// See [`store::Store::late_devices`].
    pub fn late_devices(&self) -> Vec<LateDevice> {
        self.engine.disk.store.late_devices()
    }

    /// Closes a device that is not in use, so that it can be opened again.
    ///
    /// # Errors
    /// As [`store::Store::check_answered`] and [`store::Store::let_go`].
    pub fn release_device(&self, guid: u64) -> Result<()> {
        let state = self.engine.state.read();
        let device = state
            .config
            .devices
            .iter()
            .find(|device| device.guid == guid);
        let is_in_use = device.is_some_and(|device| {
            !matches!(
                device.state,
                DeviceState::Offline | DeviceState::Faulted | DeviceState::Missing
            )
        });
        match is_in_use {
            true => Ok(()),
            false => {
                let store = &self.engine.disk.store;
                store.check_answered(guid)?;
                Ok(store.let_go(guid, false)?)
            }
        }
    }

    /// Uses a member again that was away or had failed, and starts its resilver.
    ///
    /// # Errors
    /// [`Error::Store`] if it is another device, or fails;
    /// [`Error::OtherHistory`] if it was used without the others; as
    /// [`Pool::commit`].
    pub fn online_device(
        &self,
        guid: u64,
        device: Arc<dyn BlockDevice>,
        origin: &Origin,
    ) -> Result<()> {
        let engine = &self.engine;
        engine.check_writable()?;
        let name = device.name();
        engine.disk.store.take_back(device, guid)?;
        let done = engine.commit_with(|commit, state| {
            let newest = commit.core.disk.store.newest_superblocks();
            let own = newest.iter().find(|newest| newest.guid == guid);
            let last = own.and_then(|own| own.superblock.clone());
            let from = membership::rejoin(&state.config, &name, last.as_ref())?;
            let member = commit.core.disk.store.members();
            let member = member.into_iter().find(|member| member.guid == guid);
            let device = state.device(guid)?;
            if let Some(member) = member {
                device.path = member.name;
                device.size = member.size;
            }
            device.from_txg = device.from_txg.min(from);
            device.state = DeviceState::Resilvering;
            device.is_temporary = false;
            let assigned = DeviceAssignment {
                guid,
                state: MemberState::Resilvering,
                errors: device.errors,
            };
            commit
                .core
                .disk
                .store
                .set_state(assigned.guid, assigned.state);
            state.devices_changed(commit);
            log(commit, state, origin, None);
            Ok(())
        });
        if done.is_err() {
            engine.disk.store.let_go(guid, false)?;
        }
        done
    }

    /// Clears the error counts of all devices, or of one. If a resilver has ended and members still lack data, it
    /// begins again.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn clear_device_errors(&self, guid: Option<u64>, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            commit.core.disk.store.clear_errors(guid);
            for device in &mut state.config.devices {
                if guid.is_none_or(|guid| guid == device.guid) {
                    device.errors = ErrorCounts::default();
                }
            }
            state.config_dirty = true;
            let mut devices = state.config.devices.iter();
            let is_lacking = devices.any(|device| device.state == DeviceState::Resilvering);
            if is_lacking && !state.config.resilver.is_running() {
                state.devices_changed(commit);
            }
            log(commit, state, origin, None);
            Ok(())
        })
    }
}

impl CommitEngine {
    /// Writes keys and the newest superblock to devices that are about to be listed. Then an import recognizes
    /// them, even if the power fails while the commit that lists them is on some devices only.
    fn bring_headers(&self, guids: &[u64]) -> Result<()> {
        let store = &self.disk.store;
        let blocks = self.key_blocks_in_use();
        for guid in guids {
            store.refresh_headers(*guid, &blocks)?;
        }
        if let Some((txg, superblock)) = store.superblocks()?.first() {
            store.confirm_superblock(*txg, superblock)?;
        }
        Ok(())
    }

    /// Releases new devices with a label if they could not be entered into the configuration.
    fn or_let_go(&self, guids: &[u64], entered: Result<()>) -> Result<()> {
        if entered.is_err() {
            // It is unknown whether the next import finds a commit that failed, and the
            // pool may need them then.
            let is_refused = self.suspension.now().is_none();
            for guid in guids {
                if let Err(error) = self.disk.store.let_go(*guid, is_refused) {
                    tracing::warn!(%error, "a device that was not added could not be erased");
                }
            }
        }
        entered
    }

    /// Erases spares that were missing when they were released: they still have the labels, superblocks and keys from
    /// their time as members.
    pub(crate) fn dismiss_returned_spares(&self) -> Result<()> {
        let spares: Vec<u64> = {
            let state = self.state.read();
            let spares = state.config.devices.iter().filter(|d| !d.is_member());
            spares.map(|device| device.guid).collect()
        };
        let mut members = self.disk.store.members();
        members.retain(|member| !member.is_spare && spares.contains(&member.guid));
        let returned: Vec<u64> = members.iter().map(|member| member.guid).collect();
        self.release(&returned, true)
    }

    /// Releases devices that the last commit removed from the list. They belong to no pool, or are spares again.
    pub(crate) fn release(&self, guids: &[u64], as_spares: bool) -> Result<()> {
        let store = &self.disk.store;
        for guid in guids {
            let released = match as_spares {
                true => store.dismiss(*guid),
                false => store.let_go(*guid, true),
            };
            if let Err(error) = released {
                // It does not belong to the pool any more, and may be missing.
                tracing::warn!(%error, "a device that was taken out of the pool could not be erased");
            }
        }
        Ok(())
    }
}
