//! Spares that replace failed or missing devices.

use crate::engine::history::{Origin, log, log_own};
use crate::error::{Error, Result};
use crate::format::superblock::config::{ConfigDevice, DeviceState};
use crate::ops::devices::resilver::Resilverer;

impl Resilverer<'_> {
    /// Replaces failed or missing devices by spares, unless there is a checkpoint. True if a spare was used.
    ///
    /// # Errors
    /// As [`crate::Pool::commit`]. A spare that fails is passed over.
    pub fn use_spares(&self) -> Result<bool> {
        let engine = self.engine;
        let (config, is_kept) = {
            let state = engine.state.read();
            (state.config.clone(), state.checkpoint.is_some())
        };
        // It would lack what only the checkpoint has.
        if is_kept {
            return Ok(false);
        }
        if engine.read_only || !config.devices.iter().any(|d| d.state == DeviceState::Spare) {
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

    /// Replaces a member by a spare, for a command. If the member is missing, the spare becomes a spare again when the
    /// member is back. A member that works leaves the pool after the resilver of the spare.
    ///
    /// # Errors
    /// [`Error::Device`] if the one is no spare that is there, if the other is no member, if its place is taken
    /// already, or if its group is being removed; [`Error::Store`] if the spare does not fit; as [`crate::Pool::commit`].
    pub fn use_spare(&self, old: u64, spare: u64, origin: &Origin) -> Result<()> {
        self.engine.state.read().refuse_with_checkpoint()?;
        let engine = self.engine;
        engine.check_writable()?;
        let config = engine.state.read().config.clone();
        let listed = |guid: u64| {
            let device = config.devices.iter().find(|device| device.guid == guid);
            device.ok_or_else(|| Error::no_device(guid))
        };
        let (old, new) = (listed(old)?, listed(spare)?);
        if !old.is_member() {
            let reason = "it is a spare, and holds nothing";
            return Err(Error::of_device(&old.path, reason));
        }
        if new.state != DeviceState::Spare {
            return Err(Error::of_device(&new.path, "it is not a spare that waits"));
        }
        if let Some(other) = config.devices.iter().find(|d| d.replaces == old.guid) {
            let reason = format!("{} is taking the place of {} already", other.path, old.path);
            return Err(Error::of_device(&new.path, reason));
        }
        if config.leaving() == Some(old.group) {
            let reason = "its group is being removed; stop that first (pool remove -s)";
            return Err(Error::of_device(&old.path, reason));
        }
        engine.disk.store.enlist(spare, old.group, old.column)?;
        let is_away = matches!(
            old.state,
            DeviceState::Offline | DeviceState::Faulted | DeviceState::Missing
        );
        engine.commit_with(|commit, state| {
            step_in(state.device(spare)?, old, is_away);
            state.devices_changed(commit);
            log(commit, state, origin, None);
            Ok(())
        })
    }

    fn use_spare_for(&self, failed: &ConfigDevice) -> Result<bool> {
        let engine = self.engine;
        let present = engine.disk.store.members();
        let spares: Vec<u64> = {
            let state = engine.state.read();
            let spares = state.config.devices.iter();
            let spares = spares.filter(|device| device.state == DeviceState::Spare);
            let is_there = |guid: &u64| present.iter().any(|member| member.guid == *guid);
            spares.map(|device| device.guid).filter(is_there).collect()
        };
        for spare in spares {
            if let Err(error) = engine.disk.store.enlist(spare, failed.group, failed.column) {
                tracing::warn!(%error, "a spare cannot take the place of {}", failed.path);
                continue;
            }
            engine.commit_with(|commit, state| {
                let device = state.device(spare)?;
                step_in(device, failed, true);
                let what = format!("spare {} takes the place of {}", device.path, failed.path);
                tracing::warn!("{what}");
                state.devices_changed(commit);
                log_own(commit, state, what);
                Ok(())
            })?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// Makes the spare a member, and starts its resilver. With `stands_in` it becomes a spare again later.
fn step_in(spare: &mut ConfigDevice, old: &ConfigDevice, stands_in: bool) {
    spare.group = old.group;
    spare.column = old.column;
    spare.state = DeviceState::Resilvering;
    spare.from_txg = 0;
    spare.replaces = old.guid;
    spare.was_spare = stands_in;
}
