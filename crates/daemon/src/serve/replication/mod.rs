//! Runs jobs that copy datasets.
//!
//! A run is a sequence of ordinary commands: list, send, receive, bookmark, destroy. The daemon carries them out for the
//! owner of the job, with the owner's present rights. So a job does nothing that its owner could not do by hand, and a
//! right that was taken away stops it.
//!
//! The target is always in the state of a whole snapshot. A receive that is interrupted leaves what came, and the next
//! run sends the rest.

mod listing;
mod marks;
mod owner;
mod pipe;
mod plan;
mod run;
mod scheduler;
mod side;
mod ssh;

pub(crate) use scheduler::start;

use std::sync::Arc;

use protocol::api::StreamRow;

use crate::failure::Result;
use crate::ops::replication::list::JobOfDataset;
use crate::state::daemon::Daemon;
use crate::state::replication::progress::RunProgress;

/// The streams that a run of a job would send now.
pub(super) fn would_send(daemon: &Arc<Daemon>, one: &JobOfDataset) -> Result<Vec<StreamRow>> {
    run::JobRun::new(daemon, one, &RunProgress::new())?.would_send()
}
