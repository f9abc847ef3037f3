//! Adds, changes and finds jobs that copy datasets.

use std::sync::Arc;
use std::time::Duration;

use pool::{Entry, PROPERTY_MAX};
use protocol::accounts::user_name;
use protocol::api::{FailureKind, JobChange, command};
use protocol::characters::is_hidden;

use crate::failure::{Failure, Result};
use crate::host::callers::scope::PeerToken;
use crate::host::process::system::now_secs;
use crate::ops::replication::list::{JobOfDataset, is_of};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;
use crate::state::replication::checks::{CheckKind, CheckOutcome};
use crate::state::replication::job::{JOBS, JOBS_MAX, JobKey, ReplicationJob};
use crate::state::replication::target::ReplicationTarget;

/// The most jobs of a user other than root. All of them are looked at again and again.
const JOBS_OF_USER: usize = 64;
/// The longest reason of a drill that failed, in characters.
const FAILURE_MAX: usize = 500;
/// The time between two looks at the caller of a command that waits for a run.
const LOOK: Duration = Duration::from_millis(250);

impl Daemon {
    /// Adds a job to a dataset. Its owner is the caller.
    pub(crate) fn replicate_add(
        &self,
        it: &command::ReplicateAdd,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        refuse_narrow_token(context)?;
        let job = ReplicationJob {
            name: it.name.clone(),
            target: it.target.clone(),
            owner: context.peer.uid,
            user: user_name(context.peer.uid),
            every: it.every,
            recursive: it.recursive,
            keep: it.keep.clone(),
            limit: it.limit,
            window: it.window.clone(),
            token: it.token.clone(),
            ca: it.ca.clone(),
            paused: false,
        };
        job.check()?;
        self.check_number_of_jobs(context)?;
        let (active, source) = self.dataset_to_copy(&it.source)?;
        if let ReplicationTarget::Local(target) = job.place()? {
            check_apart(&it.source, &target)?;
        }
        let admin = active.lock(context.decision)?;
        let source = active.same(&source, &it.source, context.decision)?;
        let mut jobs = ReplicationJob::of(&source);
        if jobs.iter().any(|known| known.name == job.name) {
            return Err(Failure::new(
                FailureKind::Exists,
                format!("'{}' has a job '{}' already", it.source, job.name),
            ));
        }
        // Two such jobs would each see the other one's copy as its own.
        let place = job.place()?;
        let is_same = |known: &&ReplicationJob| known.place().is_ok_and(|other| other == place);
        if let Some(known) = jobs.iter().find(is_same) {
            return Err(Failure::new(
                FailureKind::Exists,
                format!(
                    "the job '{}' copies '{}' to '{}' already; choose another target, or remove that job first",
                    known.name, it.source, job.target
                ),
            ));
        }
        if jobs.len() >= JOBS_MAX {
            return Err(Failure::usage(format!(
                "'{}' has {JOBS_MAX} jobs, which is the most; remove one first",
                it.source
            )));
        }
        jobs.push(job.clone());
        let text = ReplicationJob::to_text(&jobs)?;
        if text.len() > PROPERTY_MAX {
            return Err(Failure::usage(format!(
                "the jobs of '{}' have too much text together; use shorter names of files, or remove a job first",
                it.source
            )));
        }
        context.check_texts(&active, text.len())?;
        store(&active, &it.source, &jobs, context)?;
        self.replications
            .accept(&key_of(&active, &source, &job), &job)?;
        drop(admin);
        self.replications.wake();
        self.tell_absent_target(&place, context);
        Ok(())
    }

    /// Tells root that the pool of a target is not imported. Others may not know which pools there are.
    fn tell_absent_target(&self, place: &ReplicationTarget, context: &mut CallerContext<'_>) {
        if let ReplicationTarget::Local(target) = place
            && context.is_root()
            && self.pool_of(target).is_err()
        {
            context.channel.notice(format!(
                "the pool of the target '{target}' is not imported here; the job fails until it is"
            ));
        }
    }

    /// Pauses, resumes or removes a job.
    pub(crate) fn replicate_change(
        &self,
        it: &command::ReplicateChange,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        if it.change == JobChange::Resume {
            refuse_narrow_token(context)?;
        }
        let (active, source) = self.dataset_to_copy(&it.source)?;
        let admin = active.lock(context.decision)?;
        let source = active.same(&source, &it.source, context.decision)?;
        let mut jobs = ReplicationJob::of(&source);
        let at = jobs
            .iter()
            .position(|job| job.name == it.name && is_of(job, &context.peer));
        let at = at.ok_or_else(|| no_job(&it.name, &it.source))?;
        let key = key_of(&active, &source, &jobs[at]);
        let job = match it.change {
            JobChange::Remove => jobs.remove(at),
            change => {
                jobs[at].paused = change == JobChange::Pause;
                jobs[at].clone()
            }
        };
        store(&active, &it.source, &jobs, context)?;
        // A run may wait for the lock.
        drop(admin);
        match it.change {
            JobChange::Resume => {
                self.replications.accept(&key, &job)?;
                self.replications.renew(&key);
            }
            JobChange::Pause => self.replications.stop_job(&key, "the job was paused"),
            JobChange::Remove => {
                self.replications.stop_job(&key, "the job was removed");
                self.replications.forget(&key, &job)?;
                // The run has made its last bookmark.
                let _admin = active.lock(context.decision)?;
                destroy_marks(&active, &source, &job, context)?;
            }
        }
        Ok(())
    }

    /// Finds a job that the caller may run.
    pub(crate) fn job_to_run(
        &self,
        job: &str,
        of: &str,
        context: &CallerContext<'_>,
    ) -> Result<JobOfDataset> {
        let (active, source) = self.dataset_to_copy(of)?;
        active.again(&source, of, context.decision)?;
        let mut jobs = ReplicationJob::of(&source).into_iter();
        let found = jobs.find(|known| known.name == job && is_of(known, &context.peer));
        let one = JobOfDataset {
            job: found.ok_or_else(|| no_job(job, of))?,
            name: of.to_owned(),
            active,
            source,
        };
        match self.replications.has_accepted(&one.key(), &one.job) {
            true => Ok(one),
            false => Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "the job '{}' came with its pool, and does not run on this machine; look at it with 'strongroom \
                     replicate list', and run it here with: strongroom replicate resume {} {}",
                    job, job, of
                ),
            )),
        }
    }

    /// Notes how a drill ended, by the word of the caller.
    pub(crate) fn note_drill(
        &self,
        it: &command::ReplicateDrilled,
        context: &CallerContext<'_>,
    ) -> Result<()> {
        let one = self.job_to_run(&it.name, &it.source, context)?;
        let failure = it.failure.as_ref().map(|text| {
            let shown = text.chars().filter(|c| !is_hidden(*c));
            shown.take(FAILURE_MAX).collect::<String>()
        });
        let outcome = CheckOutcome {
            time: now_secs(),
            failure: failure.clone(),
            newest: false,
        };
        let checks = &self.replications.checks;
        let is_new = checks.note(&one.key(), CheckKind::Drill, outcome);
        if let Some(why) = failure.filter(|_| is_new) {
            let text = format!("{} of {}: a drill failed: {why}", it.name, it.source);
            let pool = one.active.pool.name();
            self.events.add("replicate_drill_fail", &pool, &text);
        }
        Ok(())
    }

    /// Has a job run now, and waits until it has ended. If the caller goes away, the run continues.
    pub(crate) fn run_and_wait(&self, key: &JobKey, context: &mut CallerContext<'_>) -> Result<()> {
        let before = self.replications.want(key);
        loop {
            if let Some(outcome) = self.replications.outcome(key, before, LOOK) {
                return outcome;
            }
            if !context.channel.pause(Duration::ZERO) {
                return Err(Failure::other("the caller went away; the job runs on"));
            }
        }
    }

    /// Refuses users other than root who have many jobs.
    fn check_number_of_jobs(&self, context: &CallerContext<'_>) -> Result<()> {
        if context.peer.is_admin {
            return Ok(());
        }
        let jobs = self.all_jobs().into_iter();
        let own = jobs.filter(|one| one.job.owner == context.peer.uid);
        match own.count() < JOBS_OF_USER {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "you have {JOBS_OF_USER} jobs, which is the most for a user other than root; remove one first, or copy \
                 several datasets by one job with -R"
            ))),
        }
    }

    fn dataset_to_copy(&self, name: &str) -> Result<(Arc<ActivePool>, Arc<Entry>)> {
        let (active, entry) = self.find(name)?;
        match entry.is_snapshot() {
            false => Ok((active, entry)),
            true => Err(Failure::usage(format!(
                "'{name}' is a snapshot; a job copies a dataset with its snapshots"
            ))),
        }
    }
}

/// Refuses a token that may do less than its user: the job would have all rights of the user.
fn refuse_narrow_token(context: &CallerContext<'_>) -> Result<()> {
    let token = context.peer.token.as_ref();
    match token.is_some_and(|token: &PeerToken| token.scope.is_narrow()) {
        false => Ok(()),
        true => Err(Failure::new(
            FailureKind::Permission,
            "a job has the rights of its user, and this token has fewer; use a token without limits",
        )),
    }
}

fn no_job(name: &str, source: &str) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!("'{source}' has no job '{name}'; to see the jobs: strongroom replicate list"),
    )
}

fn key_of(active: &ActivePool, source: &Entry, job: &ReplicationJob) -> JobKey {
    JobKey {
        pool: active.pool.guid(),
        dataset: source.guid,
        name: job.name.clone(),
    }
}

/// Refuses a copy of a dataset into itself, or above itself.
fn check_apart(source: &str, target: &str) -> Result<()> {
    let is_within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match is_within(source, target) || is_within(target, source) {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "'{source}' cannot be copied to '{target}': one of them is in the other"
        ))),
    }
}

/// Stores the jobs of a dataset. The caller holds the lock of the pool.
fn store(
    active: &ActivePool,
    source: &str,
    jobs: &[ReplicationJob],
    context: &CallerContext<'_>,
) -> Result<()> {
    let text = match jobs.is_empty() {
        true => None,
        false => Some(ReplicationJob::to_text(jobs)?),
    };
    let change = (JOBS.to_owned(), text);
    let names = [source.to_owned()];
    Ok(active
        .pool
        .set_props(&names, &[change], &context.origin())?)
}

/// Destroys the bookmarks of a job that is removed.
fn destroy_marks(
    active: &ActivePool,
    source: &Arc<Entry>,
    job: &ReplicationJob,
    context: &CallerContext<'_>,
) -> Result<()> {
    let prefix = job.mark_prefix(source.guid);
    for head in active.heads_of_job(source, job)? {
        for mark in active.pool.bookmarks(head.id)? {
            let is_own = mark
                .name
                .rsplit_once('#')
                .is_some_and(|(_, name)| name.starts_with(&prefix));
            if is_own {
                active
                    .pool
                    .destroy_bookmark(&mark.name, &context.origin())?;
            }
        }
    }
    Ok(())
}
