//! The jobs of all pools while the daemon runs: which ones are due, which ones run, and how the last run ended.
//!
//! The table also knows the definitions that this machine accepts. A pool that was imported from elsewhere may have
//! jobs of any user and to any target. They do not run before a user of this machine resumes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use protocol::api::FailureKind;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::host::log::cut_to;
use crate::state::memory::StateDir;
use crate::state::pools::schedule::Schedule;
use crate::state::replication::checks::JobChecks;
use crate::state::replication::job::{JobKey, ReplicationJob};
use crate::state::replication::progress::RunProgress;

/// The file in the state directory.
const MEMORY: &str = "replicate.json";
/// The most runs of one user's jobs at a time.
const RUNS_MAX: usize = 4;
/// A run that failed is tried again after this time, in seconds.
const RETRY: u64 = 300;
/// The longest failure of a run that is kept, in bytes.
const FAILURE_MAX: usize = 4 << 10;
/// A stop waits this long for runs to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A definition that this machine accepts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct AcceptedJob {
    pool: u64,
    dataset: u64,
    definition: String,
}

/// The runs of a job that may begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunPermit {
    /// None: this machine does not accept the definition.
    Refused,
    /// A run that a command wants.
    OnCommand,
    /// Also a run that is due.
    WhenDue,
}

/// The state of a job since the daemon was started.
#[derive(Default)]
struct JobRecord {
    owner: u32,
    running: Option<Arc<RunProgress>>,
    /// The pool of the copy, while the job runs; `None` if it is on another host.
    target_pool: Option<String>,
    /// True if the job was removed while it ran.
    is_removed: bool,
    /// True if a command wants the job to run now.
    is_wanted: bool,
    /// The number of runs that have ended.
    ended: u64,
    /// The begin of the last run.
    last_run: Option<u64>,
    schedule: Schedule,
    /// The failure of the last run that was not stopped.
    failure: Option<Failure>,
    /// The reason for which the last run was stopped. It is no fault of the job.
    stop: Option<Failure>,
    /// True if the present run began by itself, and not by a command.
    is_by_itself: bool,
    /// True if an event told that the copy is behind.
    is_behind: bool,
}

impl JobRecord {
    /// Returns whether the job does not run by itself any more, because its owner lost a right.
    fn is_stopped(&self) -> bool {
        let failure = self.failure.as_ref();
        failure.is_some_and(|failure| failure.kind == FailureKind::Permission)
    }

    /// The failure of the last run.
    fn last_failure(&self) -> Option<&Failure> {
        self.stop.as_ref().or(self.failure.as_ref())
    }

    /// Returns whether a command that wants a run has to wait no longer. `before` is the number of runs that had ended.
    fn has_outcome(&self, before: u64) -> bool {
        let is_coming = self.is_wanted || self.running.is_some();
        self.ended > before || !is_coming
    }

    /// Ends the present run. Returns whether its outcome differs from that of the run before.
    fn end(&mut self, run: &RunProgress, outcome: Result<()>) -> bool {
        if self.is_removed {
            // A job with this name that was added meanwhile has not run yet.
            *self = JobRecord {
                is_wanted: self.is_wanted,
                ended: self.ended,
                ..JobRecord::default()
            };
            return false;
        }
        self.running = None;
        self.target_pool = None;
        self.ended += 1;
        // It may have names that another host said, and is kept and logged.
        let failure = outcome.err().map(|failure| Failure {
            message: cut_to(failure.message, FAILURE_MAX),
            ..failure
        });
        if failure.is_some() && run.check().is_err() {
            self.stop = failure;
            return false;
        }
        let text = |failure: &Option<Failure>| failure.as_ref().map(|it| it.message.clone());
        let is_new = text(&failure) != text(&self.failure);
        self.failure = failure;
        self.stop = None;
        is_new
    }

    fn is_due(&self, every: u64, now: u64) -> bool {
        if self.is_stopped() {
            return false;
        }
        let every = match self.last_failure() {
            None => every,
            Some(_) => every.min(RETRY),
        };
        self.last_run
            .is_none_or(|last| self.schedule.is_due(last, every, now))
    }
}

/// The state of a job, for a report.
#[derive(Default)]
pub(crate) struct JobView {
    pub(crate) running: Option<Arc<RunProgress>>,
    pub(crate) last_run: Option<u64>,
    pub(crate) is_stopped: bool,
    pub(crate) error: Option<String>,
}

/// The jobs of all pools.
pub(crate) struct ReplicationTable {
    state: Arc<StateDir>,
    accepted: Mutex<AcceptedJobs>,
    jobs: Mutex<JobRecords>,
    changed: Condvar,
    /// The verifications and drills.
    pub(crate) checks: JobChecks,
}

/// The definitions that this machine accepts.
#[derive(Default)]
struct AcceptedJobs {
    all: BTreeSet<AcceptedJob>,
    /// The number of changes by commands since the start.
    changes: u64,
}

#[derive(Default)]
struct JobRecords {
    all: BTreeMap<JobKey, JobRecord>,
    /// True while the daemon ends: nothing begins.
    is_closed: bool,
    /// The number of changes that the scheduler has to look at.
    changes: u64,
}

impl JobRecords {
    fn runs_of(&self, owner: u32) -> usize {
        let records = self.all.values();
        records
            .filter(|record| record.owner == owner && record.running.is_some())
            .count()
    }
}

impl ReplicationTable {
    pub(crate) fn new(state: &Arc<StateDir>) -> ReplicationTable {
        ReplicationTable {
            accepted: Mutex::new(AcceptedJobs {
                all: state.recall(MEMORY, "strongroom replicate resume"),
                changes: 0,
            }),
            state: Arc::clone(state),
            jobs: Mutex::default(),
            changed: Condvar::new(),
            checks: JobChecks::new(state),
        }
    }

    /// Accepts a definition on this machine.
    pub(crate) fn accept(&self, key: &JobKey, job: &ReplicationJob) -> Result<()> {
        let one = accepted_job(key, job)?;
        self.change_accepted(|all| all.insert(one))
    }

    /// Changes the accepted definitions. `change` returns whether anything is new.
    fn change_accepted(
        &self,
        change: impl FnOnce(&mut BTreeSet<AcceptedJob>) -> bool,
    ) -> Result<()> {
        let mut accepted = self.accepted.lock();
        accepted.changes += 1;
        let mut changed = accepted.all.clone();
        match change(&mut changed) {
            true => self.store_accepted(&mut accepted, changed),
            false => Ok(()),
        }
    }

    fn store_accepted(
        &self,
        accepted: &mut AcceptedJobs,
        changed: BTreeSet<AcceptedJob>,
    ) -> Result<()> {
        self.state.remember(MEMORY, &changed)?;
        accepted.all = changed;
        Ok(())
    }

    /// The number of changes of the accepted definitions, for [`ReplicationTable::sweep`].
    pub(crate) fn definitions_changed(&self) -> u64 {
        self.accepted.lock().changes
    }

    /// Forgets the jobs of a pool except these: their datasets were destroyed, or other definitions came with the pool.
    /// `before` is the number of changes before the pool was read. Changes since then may be of newer jobs.
    pub(crate) fn sweep(&self, pool: u64, jobs: &[(JobKey, &ReplicationJob)], before: u64) {
        let known = jobs.iter().map(|(key, job)| accepted_job(key, job).ok());
        let Some(known) = known.collect::<Option<BTreeSet<AcceptedJob>>>() else {
            return;
        };
        {
            let mut accepted = self.accepted.lock();
            if accepted.changes != before {
                return;
            }
            let mut changed = accepted.all.clone();
            changed.retain(|one| one.pool != pool || known.contains(one));
            if changed.len() < accepted.all.len()
                && let Err(failure) = self.store_accepted(&mut accepted, changed)
            {
                let reason = failure.message;
                tracing::warn!(reason, "a job that is gone stays accepted");
            }
        }
        let keys: BTreeSet<&JobKey> = jobs.iter().map(|(key, _)| key).collect();
        self.checks.sweep(pool, |key| keys.contains(key));
        self.jobs.lock().all.retain(|key, record| {
            let is_used = record.running.is_some() || record.is_wanted;
            key.pool != pool || is_used || keys.contains(key)
        });
    }

    pub(crate) fn has_accepted(&self, key: &JobKey, job: &ReplicationJob) -> bool {
        accepted_job(key, job).is_ok_and(|one| self.accepted.lock().all.contains(&one))
    }

    /// Forgets a job that was removed. A run of it that does not end soon keeps its place.
    pub(crate) fn forget(&self, key: &JobKey, job: &ReplicationJob) -> Result<()> {
        {
            let mut jobs = self.jobs.lock();
            match jobs.all.get_mut(key) {
                Some(record) if record.running.is_some() => record.is_removed = true,
                _ => drop(jobs.all.remove(key)),
            }
            self.changed.notify_all();
        }
        self.checks.forget(key);
        let one = accepted_job(key, job)?;
        self.change_accepted(|all| all.remove(&one))
    }

    /// Begins a run of a job that a command wants, or that is due.
    pub(crate) fn begin(
        &self,
        key: &JobKey,
        job: &ReplicationJob,
        permit: RunPermit,
        now: u64,
    ) -> Option<Arc<RunProgress>> {
        let mut jobs = self.jobs.lock();
        if permit == RunPermit::Refused {
            // The command was for another definition, before the pool was away.
            if let Some(record) = jobs.all.get_mut(key) {
                record.is_wanted = false;
                self.changed.notify_all();
            }
            return None;
        }
        if jobs.is_closed || jobs.runs_of(job.owner) >= RUNS_MAX {
            return None;
        }
        let record = jobs.all.entry(key.clone()).or_default();
        let is_due = permit == RunPermit::WhenDue && record.is_due(job.every, now);
        if record.running.is_some() || !(record.is_wanted || is_due) {
            return None;
        }
        let progress = RunProgress::new();
        record.owner = job.owner;
        record.target_pool = local_pool(job);
        record.is_by_itself = !record.is_wanted;
        record.is_wanted = false;
        record.last_run = Some(now);
        record.running = Some(Arc::clone(&progress));
        Some(progress)
    }

    /// Ends a run. Returns whether its outcome differs from that of the run before. A run that was stopped has none.
    pub(crate) fn end(&self, key: &JobKey, run: &Arc<RunProgress>, outcome: Result<()>) -> bool {
        let mut jobs = self.jobs.lock();
        jobs.changes += 1;
        let record = jobs.all.get_mut(key);
        let is_run = |running: &Arc<RunProgress>| Arc::ptr_eq(running, run);
        let record = record.filter(|record| record.running.as_ref().is_some_and(is_run));
        let is_new = record.is_some_and(|record| record.end(run, outcome));
        self.changed.notify_all();
        is_new
    }

    /// Wants a run now. Returns the number of runs that have ended, for [`ReplicationTable::outcome`].
    pub(crate) fn want(&self, key: &JobKey) -> u64 {
        let mut jobs = self.jobs.lock();
        jobs.changes += 1;
        let record = jobs.all.entry(key.clone()).or_default();
        record.is_wanted = record.running.is_none() || record.is_removed;
        let ended = record.ended;
        self.changed.notify_all();
        ended
    }

    /// Waits for a run to end, for at most `time`. `None` if it has not ended.
    pub(crate) fn outcome(&self, key: &JobKey, before: u64, time: Duration) -> Option<Result<()>> {
        let mut jobs = self.jobs.lock();
        let has_ended = |jobs: &mut JobRecords| {
            let record = jobs.all.get(key);
            jobs.is_closed || record.is_none_or(|record| record.has_outcome(before))
        };
        self.changed
            .wait_while_for(&mut jobs, |jobs| !has_ended(jobs), time);
        match has_ended(&mut jobs) {
            false => None,
            true => Some(match jobs.all.get(key) {
                Some(record) if record.ended > before => match record.last_failure() {
                    None => Ok(()),
                    Some(failure) => Err(Failure::new(failure.kind, failure.message.clone())),
                },
                _ => Err(Failure::new(
                    FailureKind::Busy,
                    "the job did not run: it was paused or removed, its pool was exported, or the daemon is ending",
                )),
            }),
        }
    }

    /// Lets a job that was stopped or paused run by itself again, now.
    pub(crate) fn renew(&self, key: &JobKey) {
        let mut jobs = self.jobs.lock();
        jobs.changes += 1;
        if let Some(record) = jobs.all.get_mut(key) {
            record.failure = None;
            record.stop = None;
            record.last_run = None;
        }
        self.changed.notify_all();
    }

    /// Notes whether the copy of a job is behind. Returns whether that is new.
    pub(crate) fn note_behind(&self, key: &JobKey, is_behind: bool) -> bool {
        let mut jobs = self.jobs.lock();
        let record = jobs.all.entry(key.clone()).or_default();
        std::mem::replace(&mut record.is_behind, is_behind) != is_behind
    }

    pub(crate) fn view(&self, key: &JobKey) -> JobView {
        let jobs = self.jobs.lock();
        let Some(record) = jobs.all.get(key) else {
            return JobView::default();
        };
        JobView {
            running: record.running.clone(),
            last_run: record.last_run,
            is_stopped: record.is_stopped(),
            error: record.failure.as_ref().map(|it| it.message.clone()),
        }
    }

    /// Stops a run that began by itself, without waiting for it.
    pub(crate) fn stop_by_itself(&self, key: &JobKey, reason: &'static str) {
        let run = {
            let jobs = self.jobs.lock();
            let record = jobs.all.get(key).filter(|record| record.is_by_itself);
            record.and_then(|record| record.running.clone())
        };
        if let Some(run) = run {
            run.stop(reason);
        }
    }

    /// Tells the scheduler to look again.
    pub(crate) fn wake(&self) {
        self.jobs.lock().changes += 1;
        self.changed.notify_all();
    }

    /// Waits for a change after change number `last`, or for `time`. Returns the number of the last change.
    pub(crate) fn wait(&self, last: u64, time: Duration) -> u64 {
        let mut jobs = self.jobs.lock();
        let is_same = |jobs: &mut JobRecords| jobs.changes == last;
        self.changed.wait_while_for(&mut jobs, is_same, time);
        jobs.changes
    }

    /// Stops the run of a job, and waits until it has ended. No command wants it to run any more.
    pub(crate) fn stop_job(&self, key: &JobKey, reason: &'static str) {
        self.stop(|one, _| one == key, reason);
        self.checks.stop(|one, _| one == key, reason);
    }

    /// Stops the runs of jobs that use a pool, because it goes away. The scheduler tries them again later.
    pub(crate) fn stop_jobs_with(&self, guid: u64, name: &str) {
        let uses = |key: &JobKey, record: &JobRecord| {
            key.pool == guid || record.target_pool.as_deref() == Some(name)
        };
        let reason = "a pool that it uses was exported";
        self.stop(uses, reason);
        let uses = |key: &JobKey, target: Option<&str>| key.pool == guid || target == Some(name);
        self.checks.stop(uses, reason);
    }

    /// Stops the runs of these jobs, and waits until they have ended.
    fn stop(&self, is_meant: impl Fn(&JobKey, &JobRecord) -> bool, reason: &'static str) {
        let mut jobs = self.jobs.lock();
        for (key, record) in &mut jobs.all {
            record.is_wanted &= !is_meant(key, record);
        }
        self.changed.notify_all();
        let running = |jobs: &JobRecords| -> Vec<Arc<RunProgress>> {
            let meant = jobs
                .all
                .iter()
                .filter(|(key, record)| is_meant(key, record));
            meant
                .filter_map(|(_, record)| record.running.clone())
                .collect()
        };
        let runs = running(&jobs);
        parking_lot::MutexGuard::unlocked(&mut jobs, || {
            runs.iter().for_each(|run| run.stop(reason));
        });
        let runs_still = |jobs: &mut JobRecords| !running(jobs).is_empty();
        self.changed.wait_while_for(&mut jobs, runs_still, PATIENCE);
    }

    /// Stops all runs, and begins none until [`ReplicationTable::open`].
    pub(crate) fn close(&self) {
        self.jobs.lock().is_closed = true;
        self.changed.notify_all();
        self.stop(|_, _| true, "the daemon ends");
        self.checks.set_closed(true);
        self.checks.stop(|_, _| true, "the daemon ends");
    }

    /// Lets runs begin again.
    pub(crate) fn open(&self) {
        self.jobs.lock().is_closed = false;
        self.checks.set_closed(false);
        self.wake();
    }
}

/// The pool of this machine that has the copy.
fn local_pool(job: &ReplicationJob) -> Option<String> {
    let place = job.place().ok()?;
    place.local_pool().map(str::to_owned)
}

fn accepted_job(key: &JobKey, job: &ReplicationJob) -> Result<AcceptedJob> {
    Ok(AcceptedJob {
        pool: key.pool,
        dataset: key.dataset,
        definition: job.definition()?,
    })
}

#[cfg(test)]
mod tests;
