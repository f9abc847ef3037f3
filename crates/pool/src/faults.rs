//! Devices that fail, and the spares that step in for them.

use store::MemberState;

use crate::commit::Commit;
use crate::config::{ConfigDevice, DeviceState};
use crate::error::Result;
use crate::lifecycle::{Origin, log};
use crate::pool::{Pool, Shared};
use crate::state::State;

/// Devices that failed.
#[derive(Default)]
pub(crate) struct Faults {
    /// The configuration does not know of these.
    new: Vec<store::Fault>,
    /// It knows of others, in a commit that is not durable yet.
    are_entering: bool,
}

impl Pool {
    /// Has spares take the place of devices that failed or are missing. True if one did.
    pub fn use_spares(&self) -> Result<bool> {
        let shared = &self.shared;
        let config = shared.state.read().config.clone();
        if shared.read_only || !config.devices.iter().any(|d| d.state == DeviceState::Spare) {
            return Ok(false);
        }
        let mut used = false;
        for failed in &config.devices {
            let has_failed = matches!(failed.state, DeviceState::Faulted | DeviceState::Missing);
            let is_replaced = config.devices.iter().any(|d| d.replaces == failed.guid);
            if has_failed && !is_replaced {
                used |= self.use_spare_for(failed)?;
            }
        }
        Ok(used)
    }

    fn use_spare_for(&self, failed: &ConfigDevice) -> Result<bool> {
        let shared = &self.shared;
        let present = shared.disk.store.members();
        let spares: Vec<u64> = {
            let state = shared.state.read();
            let spares = state.config.devices.iter();
            let spares = spares.filter(|device| device.state == DeviceState::Spare);
            let is_there = |guid: &u64| present.iter().any(|member| member.guid == *guid);
            spares.map(|device| device.guid).filter(is_there).collect()
        };
        for spare in spares {
            if let Err(error) = shared.disk.store.enlist(spare, failed.group, failed.column) {
                tracing::warn!(%error, "a spare cannot take the place of {}", failed.path);
                continue;
            }
            shared.commit_with(|commit, state| {
                let device = state.device(spare)?;
                device.group = failed.group;
                device.column = failed.column;
                device.state = DeviceState::Resilvering;
                device.from_txg = 0;
                device.replaces = failed.guid;
                device.was_spare = true;
                let what = format!("spare {} takes the place of {}", device.path, failed.path);
                tracing::warn!("{what}");
                state.devices_changed(commit);
                log_internal(commit, state, what);
                Ok(())
            })?;
            return Ok(true);
        }
        Ok(false)
    }
}

impl Shared {
    /// A member cannot be used any more.
    pub(crate) fn fault(&self, guid: u64, error: store::Error) {
        self.disk.store.set_state(guid, MemberState::Faulted);
        let members = self.disk.store.members();
        let member = members.into_iter().find(|member| member.guid == guid);
        self.faults.lock().new.push(store::Fault {
            guid,
            name: member.map(|member| member.name).unwrap_or_default(),
            error,
        });
    }

    /// Whether a device has failed that the configuration on the devices does not know of.
    pub(crate) fn has_faults(&self) -> bool {
        let mut faults = self.faults.lock();
        faults.new.extend(self.disk.store.take_faults());
        !faults.new.is_empty() || faults.are_entering
    }

    /// The commit that entered what has failed is durable.
    pub(crate) fn faults_entered(&self) {
        self.faults.lock().are_entering = false;
    }

    /// Enters what has failed into the configuration, and how often.
    pub(crate) fn enter_faults(&self, commit: &Commit<'_>, state: &mut State) {
        if !self.has_faults() {
            return;
        }
        // The commit before may have been the one in which they failed.
        let has_all_until = commit.txg.saturating_sub(2);
        let faults = {
            let mut faults = self.faults.lock();
            faults.are_entering = true;
            std::mem::take(&mut faults.new)
        };
        for store::Fault { guid, name, error } in faults {
            tracing::error!(%error, device = name, "a device failed and is not used any more");
            state.leave(guid, DeviceState::Faulted, has_all_until);
            log_internal(commit, state, format!("fault {name}: {error}"));
        }
        for member in self.disk.store.members() {
            if let Some(device) = state.config.device(member.guid) {
                device.errors = member.errors;
            }
        }
        state.devices_left();
    }
}

/// A line of the history that nobody typed.
pub(crate) fn log_internal(commit: &Commit<'_>, state: &mut State, text: String) {
    let pool = Origin {
        who: "pool".into(),
        text: String::new(),
    };
    log(commit, state, &pool, Some(text));
}
