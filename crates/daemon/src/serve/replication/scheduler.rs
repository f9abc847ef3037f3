//! The thread that begins the runs of jobs when they are due.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::failure::{Failure, Result};
use crate::host::log::log_for;
use crate::host::process::system::now_secs;
use crate::ops::replication::list::JobOfDataset;
use crate::serve::replication::lag_events;
use crate::serve::replication::run::JobRun;
use crate::state::daemon::Daemon;
use crate::state::replication::job::JobKey;
use crate::state::replication::progress::RunProgress;
use crate::state::replication::table::RunPermit;

/// The longest time between two looks at the jobs.
const LOOK: Duration = Duration::from_secs(10);

/// Starts the thread, and that which looks for copies that are behind. They end when the daemon does.
pub(crate) fn start(daemon: &Arc<Daemon>) {
    lag_events::start(daemon);
    let daemon = Arc::downgrade(daemon);
    if let Err(error) = threads::start("replicate", move || look(&daemon)) {
        tracing::error!(%error, "no job copies datasets: a thread could not be started");
    }
}

fn look(daemon: &Weak<Daemon>) {
    let mut last = 0;
    loop {
        let Some(daemon) = daemon.upgrade() else {
            return;
        };
        begin_due(&daemon);
        last = daemon.replications.wait(last, LOOK);
    }
}

/// Begins all jobs that are due.
fn begin_due(daemon: &Arc<Daemon>) {
    let now = now_secs();
    for one in daemon.all_jobs() {
        let key = one.key();
        let is_accepted = daemon.replications.has_accepted(&key, &one.job);
        let is_in_window = is_in_window(&one, now);
        if !is_in_window {
            let reason = "its hours are over";
            daemon.replications.stop_by_itself(&key, reason);
        }
        let permit = match is_accepted {
            false => RunPermit::Refused,
            true if one.job.paused || !is_in_window => RunPermit::OnCommand,
            true => RunPermit::WhenDue,
        };
        if let Some(progress) = daemon.replications.begin(&key, &one.job, permit, now) {
            start_run(daemon, one, &progress);
        }
    }
}

/// Carries out one run in its own thread.
fn start_run(daemon: &Arc<Daemon>, one: JobOfDataset, progress: &Arc<RunProgress>) {
    let (key, thread) = (one.key(), format!("repl-{}", one.job.name));
    let work = {
        let (daemon, key, progress) = (Arc::clone(daemon), key.clone(), Arc::clone(progress));
        move || run(&daemon, &one, &key, &progress)
    };
    if let Err(error) = threads::start(thread, work) {
        let why = Failure::other(format!("a thread could not be started: {error}"));
        daemon.replications.end(&key, progress, Err(why));
    }
}

fn is_in_window(one: &JobOfDataset, now: u64) -> bool {
    let window = one.job.day_window().ok().flatten();
    window.is_none_or(|window| window.has(now, &TimeZone::system()))
}

/// Carries out one run, and tells how it ended.
fn run(daemon: &Arc<Daemon>, one: &JobOfDataset, key: &JobKey, progress: &Arc<RunProgress>) {
    let is_of_root = one.job.owner == 0;
    let _lines = log_for((!is_of_root).then(|| format!("uid {}", one.job.owner)));
    let _span = tracing::error_span!("replicate", job = one.job.name, source = one.name).entered();
    let work = || -> Result<()> { JobRun::new(daemon, one, progress)?.run() };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let defect = |_| {
        Err(Failure::other(
            "the run died; this is a defect of the program",
        ))
    };
    let outcome = outcome.unwrap_or_else(defect);
    let text = outcome
        .as_ref()
        .err()
        .map(|failure| failure.message.clone());
    let (sent, was_stopped) = (progress.sent(), progress.check().is_err());
    if daemon.replications.end(key, progress, outcome) {
        let pool = one.active.pool.name();
        let (job, name) = (&one.job.name, &one.name);
        let (class, told) = match &text {
            Some(text) => ("replicate_fail", format!("{job} of {name}: {text}")),
            None => ("replicate_ok", format!("{job} of {name}: it works again")),
        };
        daemon.events.add(class, &pool, &told);
    }
    match text {
        None => tracing::info!(sent, "a dataset was copied"),
        Some(reason) if was_stopped => tracing::info!(reason, sent, "a run was stopped"),
        Some(reason) => tracing::warn!(reason, sent, "a dataset was not copied"),
    }
}
