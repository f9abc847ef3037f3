//! Spares that replace failed or missing devices.

use crate::engine::history::log_own;
use crate::error::Result;
use crate::format::config::{ConfigDevice, DeviceState};
use crate::ops::pool::Pool;

impl Pool {
    /// Replaces failed or missing devices by spares. True if a spare was used.
    ///
    /// # Errors
    /// As [`Pool::commit`]. A spare that fails is passed over.
    pub fn use_spares(&self) -> Result<bool> {
        let engine = &self.engine;
        let config = engine.state.read().config.clone();
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

    fn use_spare_for(&self, failed: &ConfigDevice) -> Result<bool> {
        let engine = &self.engine;
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
                device.group = failed.group;
                device.column = failed.column;
                device.state = DeviceState::Resilvering;
                device.from_txg = 0;
                device.replaces = failed.guid;
                device.was_spare = true;
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
