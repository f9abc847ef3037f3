//! Runs jobs that copy datasets.
//!
//! A run is a sequence of ordinary commands: list, send, receive, bookmark, destroy. The daemon carries them out for the
//! owner of the job, with the owner's present rights. So a job does nothing that its owner could not do by hand, and a
//! right that was taken away stops it.
//!
//! The target is always in the state of a whole snapshot. A receive that is interrupted leaves what came, and the next
//! run sends the rest.

mod lag_events;
mod listing;
mod marks;
mod owner;
mod pipe;
mod plan;
mod remote;
mod run;
mod scheduler;
mod side;
mod verification;

pub(crate) use scheduler::start;
pub(crate) use verification::verify_copies;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use protocol::api::StreamRow;

use crate::failure::{Failure, Result};
use crate::ops::replication::list::JobOfDataset;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::replication::progress::RunProgress;

/// The time between two looks at the caller of a dry run.
const LOOK: Duration = Duration::from_millis(250);

/// The streams that a run of a job would send now. If the caller goes away, it ends.
pub(super) fn would_send(
    daemon: &Arc<Daemon>,
    one: JobOfDataset,
    context: &mut CallerContext<'_>,
) -> Result<Vec<StreamRow>> {
    let failed = |error| Failure::other(format!("a thread could not be started: {error}"));
    let progress = RunProgress::new();
    let (tell, told) = channel();
    let work = {
        let (daemon, progress) = (Arc::clone(daemon), Arc::clone(&progress));
        move || {
            let run = run::JobRun::new(&daemon, &one, &progress);
            // The caller may be gone.
            let _ = tell.send(run.and_then(|run| run.would_send()));
        }
    };
    threads::start("replicate-dry", work).map_err(failed)?;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if context.channel.pause(Duration::ZERO) => {}
            Err(RecvTimeoutError::Timeout) => progress.stop("the caller went away"),
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the dry run died; this is a defect of the program";
                return Err(Failure::other(why));
            }
        }
    }
}
