//! Sweeps over all free space (trim, initialize): the commands and the reports.

use pool::{DeviceState, ScrubPhase, SweepKind};
use protocol::api::{FailureKind, SweepRow};

use crate::failure::{Failure, Result};
use crate::ops::devices::commands::find;
use crate::ops::pools::background::BackgroundWork;
use crate::state::callers::context::CallerContext;
use crate::state::pools::active_pool::ActivePool;

const TRIM: BackgroundWork = BackgroundWork {
    noun: "trim",
    end: "pool trim -c",
    ended: "ended",
};
const INITIALIZATION: BackgroundWork = BackgroundWork {
    noun: "initialization",
    end: "pool initialize -c",
    ended: "ended",
};

/// The kind of sweep that a request names.
pub(crate) fn kind(what: protocol::api::SpaceWork) -> SweepKind {
    match what {
        protocol::api::SpaceWork::Trim => SweepKind::Trim,
        protocol::api::SpaceWork::Initialize => SweepKind::Initialize,
    }
}

impl ActivePool {
    /// Starts a sweep, of all devices or of one, or ends or pauses the one that runs.
    pub(crate) fn sweep(
        &self,
        what: SweepKind,
        device: Option<&str>,
        (stop, pause): (bool, bool),
        context: &CallerContext<'_>,
    ) -> Result<()> {
        let pool = &self.pool;
        let work = match what {
            SweepKind::Trim => &TRIM,
            SweepKind::Initialize => &INITIALIZATION,
        };
        let _admin = self.lock(context.decision)?;
        let name = pool.name();
        let device = device.map(|device| find(pool, device)).transpose()?;
        let now = pool.sweeper().status(what);
        work.check(now.phase, (stop, pause), &name)?;
        let is_other = device
            .as_ref()
            .is_some_and(|it| Some(it.guid) != now.device);
        let begins = !stop && !pause;
        if begins && is_other && now.phase == ScrubPhase::Paused {
            let (noun, end) = (work.noun, work.end);
            let text = format!(
                "the {noun} of other devices of '{name}' is paused; to end it: strongroom {end} {name}"
            );
            return Err(Failure::new(FailureKind::Busy, text));
        }
        if let Some(device) = &device
            && !matches!(device.state, DeviceState::Online | DeviceState::Resilvering)
        {
            return Err(Failure::usage(format!("{} is not in use", device.path)));
        }
        pool.record(&context.origin())?;
        if stop {
            pool.sweeper().stop(what);
        } else if pause {
            pool.sweeper().pause(what);
        } else {
            pool.sweeper().start(what, device.map(|device| device.guid));
            self.wake();
        }
        Ok(())
    }

    /// The row for a sweep; `None` if there was none since the import.
    pub(crate) fn sweep_row(&self, what: SweepKind) -> Option<SweepRow> {
        let sweep = self.pool.sweeper().status(what);
        let state = match sweep.phase {
            ScrubPhase::None => return None,
            ScrubPhase::Running => "running",
            ScrubPhase::Finished => "finished",
            ScrubPhase::Stopped => "stopped",
            ScrubPhase::Paused => "paused",
        };
        let mut devices = self.pool.devices().into_iter();
        let device = devices.find(|device| Some(device.guid) == sweep.device);
        Some(SweepRow {
            state: state.into(),
            started: sweep.started,
            ended: sweep.ended,
            examined: sweep.examined,
            total: sweep.total,
            bytes: sweep.bytes,
            errors: sweep.failures,
            error: sweep.error,
            device: device.map(|device| device.path),
        })
    }
}
