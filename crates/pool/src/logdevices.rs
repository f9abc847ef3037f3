//! Groups of devices that are there for logs only: joining and leaving.

use store::{MemberState, NewMember};

use crate::config::{ConfigDevice, DeviceState, Purpose, ROLE_SEGMENTS_MAX, Role};
use crate::devices::refused;
use crate::error::Result;
use crate::lifecycle::{Origin, log};
use crate::log::Barred;
use crate::pool::Pool;

/// A group for logs has no more segments than this: what is synced within a few seconds is not much.
pub(crate) const LOG_SEGMENTS_MAX: u32 = 1024;

impl Pool {
    /// Adds devices that hold the same, for logs only. What is synced from now on goes there as long as one
    /// of them works, and is as safe as they are until the next commit.
    pub fn add_logs(&self, devices: &[NewMember], origin: &Origin) -> Result<()> {
        let known = self.shared.state.read().config.role_segments();
        if known > ROLE_SEGMENTS_MAX - LOG_SEGMENTS_MAX {
            let name = devices.first().map(|new| new.device.name());
            let reason = "the pool has had too many log devices";
            return Err(refused(&name.unwrap_or_default(), reason));
        }
        self.add(devices, 0, Purpose::Logs, origin)
    }

    /// Takes a group of devices for logs out of the pool. What waits in logs there moves to another place.
    pub fn remove_logs(&self, group: u16, origin: &Origin) -> Result<()> {
        let shared = &self.shared;
        let _barred = self.leave_group(group)?;
        let (devices, spares) = shared.commit_with(|commit, state| {
            let store = &commit.shared.disk.store;
            let segments = store.groups()[usize::from(group)];
            let members: Vec<ConfigDevice> = state.config.group(group).cloned().collect();
            let guids = |was_spare: bool| -> Vec<u64> {
                let members = members
                    .iter()
                    .filter(|device| device.was_spare == was_spare);
                members.map(|device| device.guid).collect()
            };
            let (devices, spares) = (guids(false), guids(true));
            for guid in &spares {
                state.take_out(commit, *guid);
            }
            for guid in &devices {
                store.set_state(*guid, MemberState::Offline);
            }
            let listed = &mut state.config.devices;
            listed.retain(|device| !devices.contains(&device.guid));
            let purpose = Purpose::Gone;
            state.config.set_role(group, Role { purpose, segments });
            state.devices_left();
            log(commit, state, origin, None);
            Ok((devices, spares))
        })?;
        shared.release(&devices, false)?;
        shared.release(&spares, true)
    }

    /// Has every log leave a group that is for logs, to which nothing comes any more until what is
    /// returned is dropped.
    pub(crate) fn leave_group(&self, group: u16) -> Result<Barred<'_>> {
        self.shared.check_writable()?;
        let purpose = self.shared.state.read().config.purpose(group);
        if purpose != Purpose::Logs {
            return Err(refused(&format!("group {group}"), "it is not for logs"));
        }
        let barred = Barred::new(&self.shared, group);
        self.leave_logs(group)?;
        Ok(barred)
    }

    /// Whether a group that is for logs would do no more without a device.
    pub(crate) fn is_last_for_logs(&self, guid: u64) -> Option<u16> {
        let state = self.shared.state.read();
        let config = &state.config;
        let device = config.devices.iter().find(|device| device.guid == guid)?;
        let is_for_logs = config.purpose(device.group) == Purpose::Logs && device.is_member();
        let is_whole =
            |other: &ConfigDevice| other.state == DeviceState::Online && other.guid != guid;
        (is_for_logs && !config.is_complete(device.group, is_whole)).then_some(device.group)
    }
}
