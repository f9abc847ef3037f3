//! The verifications and drills of jobs: which verifications run, and how the last ones ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use protocol::api::FailureKind;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::state::memory::StateDir;
use crate::state::replication::job::{JobKey, ReplicationJob};
use crate::state::replication::progress::RunProgress;

/// The file in the state directory.
const MEMORY: &str = "replicate-checks.json";
/// A stop waits this long for verifications to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kinds of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckKind {
    /// The copy was read and compared, without its key.
    Verification,
    /// Files of the copy were opened and compared, and one was restored.
    Drill,
}

/// The end of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckOutcome {
    /// Seconds since 1970.
    pub(crate) time: u64,
    /// The reason why it failed.
    pub(crate) failure: Option<String>,
    /// True if only the newest copy of each dataset was read.
    #[serde(default)]
    pub(crate) newest: bool,
}

/// The last checks of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastChecks {
    #[serde(default)]
    pub(crate) verification: Option<CheckOutcome>,
    /// The verification after that, if it found nothing out: the target did not answer, or the two sides could not begin.
    #[serde(default)]
    pub(crate) attempt: Option<CheckOutcome>,
    #[serde(default)]
    pub(crate) drill: Option<CheckOutcome>,
}

/// The last checks of a job, as the state directory has them.
#[derive(Serialize, Deserialize)]
struct StoredCheck {
    pool: u64,
    dataset: u64,
    name: String,
    last: LastChecks,
}

/// The verifications of all jobs.
pub(crate) struct JobChecks {
    state: Arc<StateDir>,
    /// Held while the file is written, so that the last state is written last.
    writing: Mutex<()>,
    table: Mutex<CheckTable>,
    changed: Condvar,
}

#[derive(Default)]
struct CheckTable {
    last: BTreeMap<JobKey, LastChecks>,
    running: BTreeMap<JobKey, RunningEntry>,
    is_closed: bool,
}

struct RunningEntry {
    progress: Arc<RunProgress>,
    /// The pool of the copy; `None` if it is on another host.
    target_pool: Option<String>,
}

/// A verification that runs, while this exists.
pub(crate) struct RunningCheck<'a> {
    checks: &'a JobChecks,
    key: JobKey,
    pub(crate) progress: Arc<RunProgress>,
}

impl JobChecks {
    pub(crate) fn new(state: &Arc<StateDir>) -> JobChecks {
        let stored: Vec<StoredCheck> = state.recall(MEMORY, "strongroom replicate verify");
        let last = stored.into_iter().map(|one| {
            let key = JobKey {
                pool: one.pool,
                dataset: one.dataset,
                name: one.name,
            };
            (key, one.last)
        });
        JobChecks {
            state: Arc::clone(state),
            writing: Mutex::default(),
            table: Mutex::new(CheckTable {
                last: last.collect(),
                ..CheckTable::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// Begins a verification of the copies of a job.
    ///
    /// # Errors
    /// Another one runs, or the daemon ends.
    pub(crate) fn begin(&self, key: &JobKey, job: &ReplicationJob) -> Result<RunningCheck<'_>> {
        let mut table = self.table.lock();
        if table.is_closed {
            return Err(Failure::new(FailureKind::Busy, "the daemon ends"));
        }
        if table.running.contains_key(key) {
            let name = &job.name;
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the copies of the job '{name}' are being verified already; wait until this has ended"
                ),
            ));
        }
        let progress = RunProgress::new();
        let place = job.place()?;
        let entry = RunningEntry {
            progress: Arc::clone(&progress),
            target_pool: place.local_pool().map(str::to_owned),
        };
        table.running.insert(key.clone(), entry);
        Ok(RunningCheck {
            checks: self,
            key: key.clone(),
            progress,
        })
    }

    /// Notes how a check ended. Returns whether the outcome differs from that of the last one. A failure stays if only the
    /// newest copies were read since, and are whole: it may be about others.
    pub(crate) fn note(&self, key: &JobKey, kind: CheckKind, outcome: CheckOutcome) -> bool {
        let mut table = self.table.lock();
        let failure = outcome.failure.clone();
        let last = table.last.entry(key.clone()).or_default();
        let place = match kind {
            CheckKind::Verification => {
                last.attempt = None;
                &mut last.verification
            }
            CheckKind::Drill => &mut last.drill,
        };
        let before = place.as_ref().and_then(|before| before.failure.clone());
        let stays = outcome.newest && outcome.failure.is_none() && before.is_some();
        if !stays {
            *place = Some(outcome);
        }
        drop(table);
        self.store();
        !stays && before != failure
    }

    /// Notes that a verification found nothing out. The last finding stays. Returns whether the one before was no such attempt.
    pub(crate) fn note_attempt(&self, key: &JobKey, attempt: CheckOutcome) -> bool {
        let mut table = self.table.lock();
        let last = table.last.entry(key.clone()).or_default();
        let before = last.attempt.replace(attempt);
        drop(table);
        self.store();
        before.is_none()
    }

    /// Forgets a job that was removed.
    pub(crate) fn forget(&self, key: &JobKey) {
        let forgotten = self.table.lock().last.remove(key);
        if forgotten.is_some() {
            self.store();
        }
    }

    /// Forgets the jobs of a pool that are gone.
    pub(crate) fn sweep(&self, pool: u64, is_there: impl Fn(&JobKey) -> bool) {
        let mut table = self.table.lock();
        let before = table.last.len();
        table
            .last
            .retain(|key, _| key.pool != pool || is_there(key));
        let is_changed = table.last.len() < before;
        drop(table);
        if is_changed {
            self.store();
        }
    }

    /// The last checks of a job, and the progress of a running verification.
    pub(crate) fn view(&self, key: &JobKey) -> (LastChecks, Option<Arc<RunProgress>>) {
        let table = self.table.lock();
        let running = table.running.get(key);
        (
            table.last.get(key).cloned().unwrap_or_default(),
            running.map(|running| Arc::clone(&running.progress)),
        )
    }

    /// Stops the verifications of these jobs, and waits until they have ended. The second argument is the pool of the copy.
    pub(crate) fn stop(
        &self,
        is_meant: impl Fn(&JobKey, Option<&str>) -> bool,
        reason: &'static str,
    ) {
        let meant = |table: &CheckTable| -> Vec<Arc<RunProgress>> {
            let running = table.running.iter();
            let meant = running.filter(|(key, entry)| is_meant(key, entry.target_pool.as_deref()));
            meant
                .map(|(_, entry)| Arc::clone(&entry.progress))
                .collect()
        };
        let mut table = self.table.lock();
        let running = meant(&table);
        parking_lot::MutexGuard::unlocked(&mut table, || {
            running.iter().for_each(|run| run.stop(reason));
        });
        let is_running = |table: &mut CheckTable| !meant(table).is_empty();
        self.changed
            .wait_while_for(&mut table, is_running, PATIENCE);
    }

    /// Begins no more verifications while the daemon ends.
    pub(crate) fn set_closed(&self, is_closed: bool) {
        self.table.lock().is_closed = is_closed;
    }

    /// Writes the file. Listings do not wait for that.
    fn store(&self) {
        let _writing = self.writing.lock();
        let table = self.table.lock();
        let stored = table.last.iter().map(|(key, last)| StoredCheck {
            pool: key.pool,
            dataset: key.dataset,
            name: key.name.clone(),
            last: last.clone(),
        });
        let stored: Vec<StoredCheck> = stored.collect();
        drop(table);
        if let Err(failure) = self.state.remember(MEMORY, &stored) {
            let reason = failure.message;
            tracing::warn!(reason, "the outcome of a verification is not remembered");
        }
    }
}

impl Drop for RunningCheck<'_> {
    fn drop(&mut self) {
        self.checks.table.lock().running.remove(&self.key);
        self.checks.changed.notify_all();
    }
}
