//! Changes to the configuration when devices join, leave or fail.

use std::collections::BTreeSet;

use store::MemberState;

use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::superblock::config::{ConfigDevice, DeviceState, Epoch, NO_GROUP};
use crate::storage::writer::txg::TxgWriter;

/// Members that the pool no longer needs after a resilver.
#[derive(Default)]
pub(crate) struct ReplacedMembers {
    pub(crate) devices: Vec<u64>,
    /// Spares that wait again.
    pub(crate) spares: Vec<u64>,
}

impl DatasetTable {
    pub(crate) fn device(&mut self, guid: u64) -> Result<&mut ConfigDevice> {
        self.config_dirty = true;
        self.config
            .device(guid)
            .ok_or_else(|| Error::no_device(guid))
    }

    /// The guid, group, size and state of each device.
    pub(crate) fn device_places(&self) -> Vec<(u64, u16, u64, DeviceState)> {
        let devices = self.config.devices.iter();
        devices
            .map(|device| (device.guid, device.group, device.size, device.state))
            .collect()
    }

    /// Marks the pool as one that has groups with several members.
    pub(crate) fn make_redundant(&mut self, commit: &TxgWriter<'_>) {
        self.config_dirty = true;
        if !self.config.is_redundant {
            self.config.is_redundant = true;
            self.config.epochs = vec![Epoch {
                guid: commit.core.env.guid(),
                start: commit.txg,
            }];
        }
        self.note_redundancy();
    }

    /// Notes that other devices get writes from now on, or that there is a new device to resilver.
    pub(crate) fn devices_changed(&mut self, commit: &TxgWriter<'_>) {
        self.make_redundant(commit);
        // Records that were written before this, and are in no tree yet, are not on the new device.
        commit.core.in_flight.devices_changed();
        self.config.restart_resilver();
    }

    /// Called after a device left: a resilver continues if another device still needs it.
    pub(crate) fn devices_left(&mut self) {
        self.config_dirty = true;
        let mut devices = self.config.devices.iter();
        if !devices.any(|device| device.state == DeviceState::Resilvering) {
            self.config.resilver.cancel();
        }
    }

    /// Refuses to remove a device if the others of its group do not hold all data.
    pub(crate) fn check_dispensable(
        &self,
        commit: &TxgWriter<'_>,
        guid: u64,
        reason: &str,
    ) -> Result<()> {
        let members = commit.core.disk.store.members();
        let Some(device) = self
            .config
            .devices
            .iter()
            .find(|device| device.guid == guid)
        else {
            return Err(Error::no_device(guid));
        };
        let is_whole = |other: &ConfigDevice| {
            let member = members.iter().find(|member| member.guid == other.guid);
            other.guid != guid
                && other.state == DeviceState::Online
                && member.is_some_and(|member| member.state == MemberState::Online)
        };
        match self.config.is_complete(device.group, is_whole) {
            true => Ok(()),
            false if self.config.shape(device.group).has_parity() => Err(Error::of_device(
                &device.path,
                "the others of its group do not hold all of it any more",
            )),
            false => Err(Error::of_device(&device.path, reason)),
        }
    }

    /// Refuses to remove a device from a group with parity, unless another device has its place, or will have it.
    pub(crate) fn check_is_doubled(&self, device: &ConfigDevice) -> Result<()> {
        let mut others = self.config.group(device.group);
        match others.any(|other| other.guid != device.guid && other.column == device.column) {
            true => Ok(()),
            false => Err(Error::of_device(
                &device.path,
                "its group has parity and needs each of its devices; replace it instead",
            )),
        }
    }

    /// Stops writes to a device.
    pub(crate) fn leave(&mut self, guid: u64, becomes: DeviceState, has_all_until: u64) {
        self.config_dirty = true;
        if let Some(device) = self.config.device(guid) {
            device.from_txg = match device.state {
                DeviceState::Online => has_all_until,
                _ => device.from_txg.min(has_all_until),
            };
            device.state = becomes;
        }
    }

    /// Stops the use of a member, and removes it from the configuration. A device that replaces it keeps the place for
    /// good. If the member itself replaced a third device, its own replacement now replaces that one. A spare becomes a
    /// spare again.
    pub(crate) fn take_out(&mut self, commit: &TxgWriter<'_>, guid: u64) {
        commit.core.disk.store.set_state(guid, MemberState::Offline);
        self.unlist(guid);
    }

    /// Does the same as [`DatasetTable::take_out`], but the store uses the member until the commit is durable.
    pub(crate) fn unlist(&mut self, guid: u64) {
        self.config_dirty = true;
        let place = self.config.device(guid).map_or(0, |device| device.replaces);
        for device in &mut self.config.devices {
            if device.replaces == guid {
                device.replaces = place;
                device.was_spare = false;
            }
        }
        match self.config.device(guid) {
            Some(device) if device.was_spare => {
                *device = ConfigDevice {
                    group: NO_GROUP,
                    column: 0,
                    state: DeviceState::Spare,
                    replaces: 0,
                    was_spare: false,
                    ..device.clone()
                };
            }
            _ => self.config.devices.retain(|device| device.guid != guid),
        }
    }

    /// Marks resilvered members as complete, and removes the members that they replace. `lacking` members stay as they
    /// are: the members that they replace may have the only copies of the missing records.
    pub(crate) fn settle_resilvered(
        &mut self,
        commit: &TxgWriter<'_>,
        lacking: &BTreeSet<u64>,
    ) -> ReplacedMembers {
        let store = &commit.core.disk.store;
        for member in store.members() {
            let is_done =
                member.state == MemberState::Resilvering && !lacking.contains(&member.guid);
            let device = self.config.device(member.guid);
            if let Some(device) =
                device.filter(|device| is_done && device.state == DeviceState::Resilvering)
            {
                device.state = DeviceState::Online;
                device.from_txg = 0;
                store.set_state(member.guid, MemberState::Online);
            }
        }
        let mut done = ReplacedMembers::default();
        while let Some(old) = self.config.devices.iter().find_map(ConfigDevice::replaced) {
            for spare in self.stand_ins(|replaces| replaces == old) {
                self.take_out(commit, spare);
                // The spare did its work: the device that it replaced is replaced for good.
                done.spares.push(spare);
            }
            let was_spare = self
                .config
                .device(old)
                .is_some_and(|device| device.was_spare);
            self.take_out(commit, old);
            match was_spare {
                true => done.spares.push(old),
                false => done.devices.push(old),
            }
        }
        let online = self
            .config
            .devices
            .iter()
            .filter(|d| d.state == DeviceState::Online);
        let online: Vec<u64> = online.map(|device| device.guid).collect();
        for spare in self.stand_ins(|replaces| online.contains(&replaces)) {
            self.take_out(commit, spare);
            done.spares.push(spare);
        }
        done
    }

    /// The spares that replace certain devices.
    fn stand_ins(&self, of: impl Fn(u64) -> bool) -> Vec<u64> {
        let devices = self.config.devices.iter();
        let spares = devices.filter(|device| device.was_spare && of(device.replaces));
        spares.map(|device| device.guid).collect()
    }
}
