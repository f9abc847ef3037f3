//! Trims: by a command, and what is told of them.

use pool::{DeviceState, ScrubPhase};
use protocol::api::{FailureKind, TrimRow};

use crate::failure::{Failure, Result};
use crate::ops::devices::find;
use crate::state::active_pool::ActivePool;
use crate::state::context::Context;

impl ActivePool {
    /// Starts a trim, of all devices or of one, or stops or pauses the one that runs.
    pub(crate) fn trim(
        &self,
        device: Option<&str>,
        (stop, pause): (bool, bool),
        context: &Context<'_>,
    ) -> Result<()> {
        let pool = &self.pool;
        let _admin = self.lock()?;
        let name = pool.name();
        let device = device.map(|device| find(pool, device)).transpose()?;
        let none = |what: &str| {
            let text = format!("there is no trim of '{name}' that could be {what}");
            Failure::new(FailureKind::NotFound, text)
        };
        let trim = pool.trim_status();
        let is_other = device
            .as_ref()
            .is_some_and(|it| Some(it.guid) != trim.device);
        match trim.phase {
            ScrubPhase::Running | ScrubPhase::Paused if stop => {}
            ScrubPhase::Running if pause => {}
            _ if stop => return Err(none("ended")),
            _ if pause => return Err(none("paused")),
            ScrubPhase::Running => {
                let text = format!(
                    "a trim of '{name}' runs already; to end it: strongroom pool trim -c {name}"
                );
                return Err(Failure::new(FailureKind::Busy, text));
            }
            ScrubPhase::Paused if is_other => {
                let text = format!(
                    "a trim of other devices of '{name}' is paused; to end it: strongroom pool trim -c {name}"
                );
                return Err(Failure::new(FailureKind::Busy, text));
            }
            _ => {}
        }
        if let Some(device) = &device
            && !matches!(device.state, DeviceState::Online | DeviceState::Resilvering)
        {
            let text = format!("{} is not in use, and cannot be trimmed", device.path);
            return Err(Failure::usage(text));
        }
        pool.record(&context.origin())?;
        if stop {
            pool.trim_stop();
        } else if pause {
            pool.trim_pause();
        } else {
            pool.trim_start(device.map(|device| device.guid));
            self.wake();
        }
        Ok(())
    }

    /// The trim for a report; none if there was none since the import.
    pub(crate) fn trim_row(&self) -> Option<TrimRow> {
        let trim = self.pool.trim_status();
        let state = match trim.phase {
            ScrubPhase::None => return None,
            ScrubPhase::Running => "running",
            ScrubPhase::Finished => "finished",
            ScrubPhase::Stopped => "stopped",
            ScrubPhase::Paused => "paused",
        };
        let mut devices = self.pool.devices().into_iter();
        let device = devices.find(|device| Some(device.guid) == trim.device);
        Some(TrimRow {
            state: state.into(),
            started: trim.started,
            ended: trim.ended,
            examined: trim.examined,
            total: trim.total,
            trimmed: trim.trimmed,
            errors: trim.failures,
            error: trim.error,
            device: device.map(|device| device.path),
        })
    }
}
