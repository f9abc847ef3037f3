//! The list of jobs, with their states.

use std::sync::Arc;

use pool::{DatasetWith, Entry};
use protocol::accounts::user_name;
use protocol::api::{CopyCheckRow, ReplicationRow};

use crate::failure::Result;
use crate::host::callers::users::Peer;
use crate::ops::devices::stores::store_outages::unless_stalled;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;
use crate::state::replication::checks::CheckOutcome;
use crate::state::replication::job::{JOBS, JobKey, ReplicationJob};

/// A job, with its source.
pub(crate) struct JobOfDataset {
    pub(crate) active: Arc<ActivePool>,
    pub(crate) source: Arc<Entry>,
    /// The whole name of the source.
    pub(crate) name: String,
    pub(crate) job: ReplicationJob,
}

impl JobOfDataset {
    pub(crate) fn key(&self) -> JobKey {
        JobKey {
            pool: self.active.pool.guid(),
            dataset: self.source.guid,
            name: self.job.name.clone(),
        }
    }
}

impl JobOfDataset {
    /// Returns whether a caller may see the dataset now. The owner of a job may have lost all rights.
    fn is_seen(&self, peer: &Peer) -> bool {
        let is_allowed = || self.active.allows_something(&self.source, peer);
        peer.is_admin || is_allowed().unwrap_or_default()
    }
}

/// Returns whether a caller may see and change a job: its owner, and root.
pub(super) fn is_of(job: &ReplicationJob, peer: &Peer) -> bool {
    let is_owner = || job.check_user(user_name(peer.uid).as_deref()).is_ok();
    peer.is_admin || peer.uid == job.owner && is_owner()
}

impl Daemon {
    /// The jobs of all pools. A pool that cannot be read has none now.
    pub(crate) fn all_jobs(&self) -> Vec<JobOfDataset> {
        let pools = self.pools();
        let jobs = pools.iter().filter_map(|active| self.jobs_of(active));
        jobs.flatten().collect()
    }

    /// The jobs of a pool. `None` if it cannot be read now: a pool whose store does not answer holds up no other.
    pub(crate) fn jobs_of(&self, active: &Arc<ActivePool>) -> Option<Vec<JobOfDataset>> {
        let found = unless_stalled(active, |active| active.pool.datasets_that_set(JOBS))?.ok()?;
        let jobs_of = |found: DatasetWith| {
            let jobs = ReplicationJob::parse_all(&found.value).into_iter();
            jobs.map(move |job| JobOfDataset {
                active: Arc::clone(active),
                source: Arc::clone(&found.entry),
                name: found.name.clone(),
                job,
            })
        };
        Some(found.into_iter().flat_map(jobs_of).collect())
    }

    /// The rows of the jobs of these datasets that the caller may see; of all datasets if none is named.
    pub(crate) fn replications(
        &self,
        names: &[String],
        peer: &Peer,
    ) -> Result<Vec<ReplicationRow>> {
        for name in names {
            self.find(name)?;
        }
        let is_named = |one: &JobOfDataset| names.is_empty() || names.contains(&one.name);
        let jobs = self.all_jobs().into_iter();
        let jobs = jobs.filter(|one| is_named(one) && is_of(&one.job, peer) && one.is_seen(peer));
        Ok(jobs
            .filter_map(|one| self.replication_row(&one, Some(peer)))
            .collect())
    }

    /// The row of a job. `None` if its pool does not answer, or if its dataset was destroyed.
    pub(crate) fn replication_row(
        &self,
        one: &JobOfDataset,
        peer: Option<&Peer>,
    ) -> Option<ReplicationRow> {
        let (key, job) = (one.key(), &one.job);
        let view = self.replications.view(&key);
        let lag = one.lag(peer)?;
        let is_accepted = self.replications.has_accepted(&key, job);
        let state = match &view.running {
            Some(_) => "running",
            None if !is_accepted => "not-accepted",
            None if job.paused => "paused",
            None if view.is_stopped => "stopped",
            None if view.error.is_some() => "failed",
            None => "waiting",
        };
        let unaccepted = || {
            format!(
                "the job came with its pool, and does not run on this machine; to run it here: strongroom replicate \
                 resume {} {}",
                job.name, one.name
            )
        };
        let (checks, verifying) = self.replications.checks.view(&key);
        let running = view.running.as_ref();
        let step = running.or(verifying.as_ref());
        Some(ReplicationRow {
            name: job.name.clone(),
            source: one.name.clone(),
            target: job.target.clone(),
            owner: job.user.clone().unwrap_or_else(|| job.owner.to_string()),
            state: state.into(),
            every: job.every,
            recursive: job.recursive,
            keep: job.keep.clone(),
            limit: job.limit,
            window: job.window.clone(),
            token: job.token.clone(),
            ca: job.ca.clone(),
            newest: lag.newest,
            lag: lag.lag,
            last_run: view.last_run,
            step: step.and_then(|run| run.step()),
            sent: running.map_or(0, |run| run.sent()),
            total: running.map_or(0, |run| run.total()),
            rate: running.map_or(0, |run| run.rate()),
            error: match is_accepted {
                true => view.error,
                false => Some(unaccepted()),
            },
            verification: checks.verification.map(check_row),
            attempt: checks.attempt.map(check_row),
            drill: checks.drill.map(check_row),
        })
    }
}

fn check_row(check: CheckOutcome) -> CopyCheckRow {
    CopyCheckRow {
        time: check.time,
        failure: check.failure,
        newest: check.newest,
    }
}
