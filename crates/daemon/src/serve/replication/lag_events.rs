//! The thread that tells which copies are behind, and forgets jobs that are gone.
//!
//! The lag of a large job takes a while, and any user may have jobs. So the thread that begins runs does not compute it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::ops::replication::list::JobOfDataset;
use crate::state::daemon::Daemon;

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(60);

/// Starts the thread. It ends when the daemon does.
pub(super) fn start(daemon: &Arc<Daemon>) {
    let daemon = Arc::downgrade(daemon);
    if let Err(error) = threads::start("replicate-lag", move || look(&daemon)) {
        tracing::error!(%error, "no event tells that a copy is behind: a thread could not be started");
    }
}

fn look(daemon: &Weak<Daemon>) {
    loop {
        {
            let Some(daemon) = daemon.upgrade() else {
                return;
            };
            for active in daemon.pools() {
                let before = daemon.replications.definitions_changed();
                // A pool that cannot be read now may have jobs.
                let Some(jobs) = daemon.jobs_of(&active) else {
                    continue;
                };
                // A pool that was imported read-only may show an older state.
                if !active.pool.is_read_only() {
                    let known = jobs.iter().map(|one| (one.key(), &one.job));
                    let known = known.collect::<Vec<_>>();
                    let guid = active.pool.guid();
                    daemon.replications.sweep(guid, &known, before);
                }
                jobs.iter().for_each(|one| tell_behind(&daemon, one));
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Adds an event for a job whose copy is behind now, and was not before.
fn tell_behind(daemon: &Daemon, one: &JobOfDataset) {
    let Some(lag) = one.lag(None) else {
        return;
    };
    let is_behind = lag.is_behind(&one.job);
    if daemon.replications.note_behind(&one.key(), is_behind) && is_behind {
        let (job, name, hours) = (&one.job.name, &one.name, lag.lag / 3600);
        let text = format!("{job} of {name}: the replication is {hours} h behind");
        tracing::warn!(job, source = name, hours, "a copy is behind");
        let pool = one.active.pool.name();
        daemon.events.add("replicate_behind", &pool, &text);
    }
}
