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
use crate::state::memory::StateDir;
use crate::state::pools::schedule::Schedule;
use crate::state::replication::job::ReplicationJob;
use crate::state::replication::progress::RunProgress;

/// The file in the state directory.
const MEMORY: &str = "replicate.json";
/// The most runs of one user's jobs at a time.
const RUNS_MAX: usize = 4;
/// A run that failed is tried again after this time, in seconds.
const RETRY: u64 = 300;
/// A stop waits this long for runs to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A job of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobKey {
    /// The guid of the pool.
    pub(crate) pool: u64,
    /// The guid of the source dataset.
    pub(crate) dataset: u64,
    pub(crate) name: String,
}

/// A definition that this machine accepts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct AcceptedJob {
    pool: u64,
    dataset: u64,
    definition: String,
}

/// The state of a job since the daemon was started.
#[derive(Default)]
struct JobRecord {
    owner: u32,
    running: Option<Arc<RunProgress>>,
    /// True if a command wants the job to run now.
    is_wanted: bool,
    /// The number of runs that have ended.
    ended: u64,
    /// The begin of the last run.
    last_run: Option<u64>,
    schedule: Schedule,
    /// The failure of the last run.
    failure: Option<Failure>,
    /// True if the last run was stopped: its failure is no fault of the job.
    was_stopped: bool,
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

    fn is_due(&self, every: u64, now: u64) -> bool {
        let every = match &self.failure {
            None => every,
            Some(_) if self.is_stopped() => return false,
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
    accepted: Mutex<BTreeSet<AcceptedJob>>,
    jobs: Mutex<JobRecords>,
    changed: Condvar,
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
            accepted: Mutex::new(state.recall(MEMORY, "strongroom replicate resume")),
            state: Arc::clone(state),
            jobs: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Accepts a definition on this machine.
    pub(crate) fn accept(&self, key: &JobKey, job: &ReplicationJob) -> Result<()> {
        let mut accepted = self.accepted.lock();
        let mut changed = accepted.clone();
        changed.insert(accepted_job(key, job)?);
        self.state.remember(MEMORY, &changed)?;
        *accepted = changed;
        Ok(())
    }

    pub(crate) fn has_accepted(&self, key: &JobKey, job: &ReplicationJob) -> bool {
        accepted_job(key, job).is_ok_and(|one| self.accepted.lock().contains(&one))
    }

    /// Forgets a job that was removed.
    pub(crate) fn forget(&self, key: &JobKey, job: &ReplicationJob) -> Result<()> {
        self.jobs.lock().all.remove(key);
        let mut accepted = self.accepted.lock();
        let mut changed = accepted.clone();
        if changed.remove(&accepted_job(key, job)?) {
            self.state.remember(MEMORY, &changed)?;
            *accepted = changed;
        }
        Ok(())
    }

    /// Begins a run of a job that a command wants, or that may run by itself and is due.
    pub(crate) fn begin(
        &self,
        key: &JobKey,
        job: &ReplicationJob,
        may_run: bool,
        now: u64,
    ) -> Option<Arc<RunProgress>> {
        let mut jobs = self.jobs.lock();
        if jobs.is_closed || jobs.runs_of(job.owner) >= RUNS_MAX {
            return None;
        }
        let record = jobs.all.entry(key.clone()).or_default();
        let begins = record.is_wanted || may_run && record.is_due(job.every, now);
        if record.running.is_some() || !begins {
            return None;
        }
        let progress = RunProgress::new();
        record.owner = job.owner;
        record.is_by_itself = !record.is_wanted;
        record.is_wanted = false;
        record.last_run = Some(now);
        record.running = Some(Arc::clone(&progress));
        Some(progress)
    }

    /// Ends a run. Returns whether its outcome differs from that of the run before. A run that was stopped has none.
    pub(crate) fn end(&self, key: &JobKey, outcome: Result<()>) -> bool {
        let mut jobs = self.jobs.lock();
        jobs.changes += 1;
        let mut is_new = false;
        if let Some(record) = jobs.all.get_mut(key) {
            let failure = outcome.err();
            let text = |failure: &Option<Failure>| failure.as_ref().map(|it| it.message.clone());
            let run = record.running.take();
            record.was_stopped = failure.is_some() && run.is_some_and(|run| run.check().is_err());
            is_new = !record.was_stopped && text(&failure) != text(&record.failure);
            record.failure = failure;
            record.ended += 1;
        }
        self.changed.notify_all();
        is_new
    }

    /// Wants a run now. Returns the number of runs that have ended, for [`ReplicationTable::outcome`].
    pub(crate) fn want(&self, key: &JobKey) -> u64 {
        let mut jobs = self.jobs.lock();
        jobs.changes += 1;
        let record = jobs.all.entry(key.clone()).or_default();
        record.is_wanted = record.running.is_none();
        let ended = record.ended;
        self.changed.notify_all();
        ended
    }

    /// Waits for a run to end, for at most `time`. `None` if it has not ended.
    pub(crate) fn outcome(&self, key: &JobKey, before: u64, time: Duration) -> Option<Result<()>> {
        let mut jobs = self.jobs.lock();
        let has_ended = |jobs: &mut JobRecords| {
            jobs.is_closed || jobs.all.get(key).is_none_or(|record| record.ended > before)
        };
        self.changed
            .wait_while_for(&mut jobs, |jobs| !has_ended(jobs), time);
        match has_ended(&mut jobs) {
            false => None,
            true => Some(match jobs.all.get(key) {
                Some(record) if record.ended > before => match &record.failure {
                    None => Ok(()),
                    Some(failure) => Err(Failure::new(failure.kind, failure.message.clone())),
                },
                _ => Err(Failure::new(
                    FailureKind::Busy,
                    "the job was removed, or the daemon is ending",
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
            error: match &record.failure {
                Some(failure) if !record.was_stopped => Some(failure.message.clone()),
                _ => None,
            },
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

    /// Stops the runs of these jobs, and waits until they have ended.
    pub(crate) fn stop(&self, is_meant: impl Fn(&JobKey) -> bool, reason: &'static str) {
        let mut jobs = self.jobs.lock();
        let running = |jobs: &JobRecords| -> Vec<Arc<RunProgress>> {
            let meant = jobs.all.iter().filter(|(key, _)| is_meant(key));
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
        self.stop(|_| true, "the daemon ends");
    }

    /// Lets runs begin again.
    pub(crate) fn open(&self) {
        self.jobs.lock().is_closed = false;
        self.wake();
    }
}

fn accepted_job(key: &JobKey, job: &ReplicationJob) -> Result<AcceptedJob> {
    Ok(AcceptedJob {
        pool: key.pool,
        dataset: key.dataset,
        definition: job.definition()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(owner: u32) -> ReplicationJob {
        ReplicationJob {
            name: "j".into(),
            target: "backup/home".into(),
            owner,
            every: 3600,
            recursive: false,
            keep: None,
            limit: None,
            window: None,
            paused: false,
        }
    }

    fn key(dataset: u64) -> JobKey {
        JobKey {
            pool: 1,
            dataset,
            name: "j".into(),
        }
    }

    fn table() -> (tempfile::TempDir, ReplicationTable) {
        let dir = tempfile::tempdir().unwrap();
        let table = ReplicationTable::new(&Arc::new(StateDir::new(dir.path())));
        (dir, table)
    }

    #[test]
    fn a_job_runs_when_it_is_due_and_once_at_a_time() {
        let (_dir, table) = table();
        let begin = |may_run, now| table.begin(&key(1), &job(0), may_run, now).is_some();
        assert!(!begin(false, 1000));
        assert!(begin(true, 1000));
        assert!(!begin(true, 9000));
        assert!(table.end(&key(1), Err(Failure::other("x"))));
        // After a failure it is tried earlier.
        assert!(!begin(true, 1000 + RETRY - 1));
        assert!(begin(true, 1000 + RETRY));
        assert!(!table.end(&key(1), Err(Failure::other("x"))));
        assert!(begin(true, 1000 + 2 * RETRY));
        assert!(table.end(&key(1), Ok(())));
        assert!(!begin(true, 1000 + 3 * RETRY));
        assert_eq!(table.want(&key(1)), 3);
        assert!(begin(false, 1000 + 3 * RETRY));
        table.end(&key(1), Ok(()));
        assert!(table.outcome(&key(1), 3, Duration::ZERO).unwrap().is_ok());
        assert!(table.outcome(&key(1), 4, Duration::ZERO).is_none());
    }

    #[test]
    fn a_run_that_is_stopped_is_no_fault() {
        let (_dir, table) = table();
        let run = table.begin(&key(1), &job(0), true, 1000).unwrap();
        table.stop_by_itself(&key(1), "its hours are over");
        let stopped = run.check().unwrap_err();
        assert!(!table.end(&key(1), Err(stopped)));
        assert!(table.view(&key(1)).error.is_none());
        assert!(table.outcome(&key(1), 0, Duration::ZERO).unwrap().is_err());
        // It goes on soon.
        assert!(table.begin(&key(1), &job(0), true, 1000 + RETRY).is_some());
        table.end(&key(1), Ok(()));
        table.want(&key(1));
        let run = table.begin(&key(1), &job(0), false, 2000).unwrap();
        table.stop_by_itself(&key(1), "its hours are over");
        run.check().unwrap();
    }

    #[test]
    fn a_job_without_a_right_stops_until_it_is_resumed() {
        let (_dir, table) = table();
        let begin = |now| table.begin(&key(1), &job(0), true, now).is_some();
        assert!(begin(1000));
        let refused = Failure::new(FailureKind::Permission, "no");
        table.end(&key(1), Err(refused));
        assert!(!begin(1_000_000) && table.view(&key(1)).is_stopped);
        table.renew(&key(1));
        assert!(begin(1_000_000));
    }

    #[test]
    fn the_jobs_of_one_user_do_not_take_all_places() {
        let (_dir, table) = table();
        for dataset in 0..RUNS_MAX as u64 {
            table.begin(&key(dataset), &job(7), true, 1).unwrap();
        }
        assert!(table.begin(&key(99), &job(7), true, 1).is_none());
        table.begin(&key(99), &job(8), true, 1).unwrap();
        table.jobs.lock().is_closed = true;
        assert!(table.begin(&key(98), &job(9), true, 1).is_none());
    }

    #[test]
    fn a_definition_is_accepted_on_this_machine_only() {
        let (dir, table) = table();
        table.accept(&key(1), &job(0)).unwrap();
        let again = ReplicationTable::new(&Arc::new(StateDir::new(dir.path())));
        assert!(again.has_accepted(&key(1), &job(0)));
        assert!(!again.has_accepted(&key(2), &job(0)));
        assert!(!again.has_accepted(&key(1), &job(1)));
        again.forget(&key(1), &job(0)).unwrap();
        assert!(!again.has_accepted(&key(1), &job(0)));
    }
}
