//! A run of a job: copies each dataset, marks what was copied, and prunes the copy.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::api::{FailureKind, Reply, SendScope, StreamRow, command};

use crate::failure::{Failure, Result};
use crate::ops::replication::list::JobOfDataset;
use crate::serve::replication::listing::{ListedDataset, SavePoint, datasets_in, listing_of};
use crate::serve::replication::marks::SourceMarks;
use crate::serve::replication::owner::{JobOwner, unexpected};
use crate::serve::replication::plan::{CopyStep, parts, renamed, steps};
use crate::serve::replication::side::{TargetSide, dataset_rows};
use crate::state::daemon::Daemon;
use crate::state::replication::progress::RunProgress;
use crate::state::replication::target::ReplicationTarget;

/// The most steps of one dataset in a run. A target that never gets further must not keep a run busy for ever.
const ROUNDS_MAX: usize = 8;

/// A run of a job.
pub(super) struct JobRun<'a> {
    pub(super) daemon: &'a Arc<Daemon>,
    pub(super) owner: JobOwner,
    pub(super) one: &'a JobOfDataset,
    target: ReplicationTarget,
    pub(super) side: TargetSide,
    pub(super) progress: Arc<RunProgress>,
}

/// The two sides of a job.
pub(super) struct JobSides {
    source: Vec<ListedDataset>,
    target: Vec<ListedDataset>,
}

impl<'a> JobRun<'a> {
    pub(super) fn new(
        daemon: &'a Arc<Daemon>,
        one: &'a JobOfDataset,
        progress: &Arc<RunProgress>,
    ) -> Result<JobRun<'a>> {
        let owner = JobOwner::of(daemon, &one.job)?;
        Ok(JobRun {
            side: TargetSide::new(&owner, &one.job, progress)?,
            owner,
            daemon,
            one,
            target: one.job.place()?,
            progress: Arc::clone(progress),
        })
    }

    /// The streams that would be sent now.
    pub(super) fn would_send(&self) -> Result<Vec<StreamRow>> {
        let sides = self.sides()?;
        let mut rows = Vec::new();
        for (source, origin) in self.in_order(&sides) {
            let target = sides.copy_of(&self.copy_name(source));
            for step in steps(source, target, origin, &self.marks_prefix())? {
                self.progress.check()?;
                rows.extend(self.estimate(source, &step)?);
            }
        }
        Ok(rows)
    }

    /// Copies all datasets. One that cannot be copied does not stop the others.
    pub(super) fn run(&self) -> Result<()> {
        self.progress
            .enter(Some("compares both sides".into()), Vec::new())?;
        let mut sides = self.sides()?;
        let mut failures = self.follow_renames(&mut sides)?;
        for (source, origin) in self.in_order(&sides) {
            let target = sides.copy_of(&self.copy_name(source));
            let steps = steps(source, target, origin, &self.marks_prefix());
            for step in steps.unwrap_or_default() {
                let rows = self.estimate(source, &step).unwrap_or_default();
                self.progress
                    .add_total(rows.iter().map(|row| row.size).sum());
            }
        }
        for (source, origin) in self.in_order(&sides) {
            if let Err(failure) = self.copy(source, origin, &sides) {
                self.progress.check()?;
                failures.push(failure);
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        let mut first = failures.remove(0);
        if !failures.is_empty() {
            first.message += &format!(" (and {} more datasets)", failures.len());
        }
        Err(first)
    }

    /// Renames the copies of datasets that were renamed below the source. A dataset whose copy keeps its old name is not
    /// copied: it would become a second copy. Returns the failures of these.
    fn follow_renames(&self, sides: &mut JobSides) -> Result<Vec<Failure>> {
        let mut failures = Vec::new();
        // Each rename brings one copy to its place.
        for _ in 0..sides.source.len() {
            let name = |source: &ListedDataset| self.copy_name(source);
            let Some((from, to)) = renamed(&sides.source, &sides.target, name) else {
                break;
            };
            self.progress.check()?;
            if let Err(failure) = self.side.rename(&from, &to) {
                self.progress.check()?;
                failures.push(failure);
                sides.leave_out(|source| self.copy_name(source) == to);
                continue;
            }
            let top = self.target.dataset();
            sides.target = self.side.list(top, self.one.job.recursive)?;
        }
        Ok(failures)
    }

    /// The begin of the names of the job's bookmarks.
    pub(super) fn marks_prefix(&self) -> String {
        format!("#{}", self.one.job.mark_prefix(self.one.source.guid))
    }

    /// The name of the copy of a dataset of the source.
    pub(super) fn copy_name(&self, source: &ListedDataset) -> String {
        let below = source.name.strip_prefix(&self.one.name).unwrap_or_default();
        format!("{}{below}", self.target.dataset())
    }

    pub(super) fn sides(&self) -> Result<JobSides> {
        let (top, recursive) = (&self.one.name, self.one.job.recursive);
        let source = self.owner.call(listing_of(top, recursive))?;
        let source = datasets_in(dataset_rows(source)?, top, recursive);
        Ok(JobSides {
            source,
            target: self.side.list(self.target.dataset(), recursive)?,
        })
    }

    /// The datasets of the source, each after the dataset above it. A clone comes after its origin, with the snapshot
    /// that it is a clone of.
    pub(super) fn in_order<'s>(
        &self,
        sides: &'s JobSides,
    ) -> Vec<(&'s ListedDataset, Option<&'s str>)> {
        let mut waiting: Vec<&ListedDataset> = sides.source.iter().collect();
        let names: BTreeSet<&str> = waiting.iter().map(|one| one.name.as_str()).collect();
        let mut done = BTreeSet::new();
        let mut ordered = Vec::new();
        while !waiting.is_empty() {
            let is_ready = |one: &&ListedDataset| {
                let above = one.name.rsplit_once('/').map(|(above, _)| above);
                let origin = one.origin.as_deref().map(dataset_of);
                let mut needed = [above, origin].into_iter().flatten();
                needed.all(|name| !names.contains(name) || done.contains(name))
            };
            let at = waiting.iter().position(is_ready);
            let one = waiting.remove(at.unwrap_or(0));
            let origin = one.origin.as_deref();
            // Only root receives clones of what others may not see.
            let is_copied =
                |origin: &&str| done.contains(dataset_of(origin)) && self.side.takes_clones();
            ordered.push((one, origin.filter(is_copied)));
            done.insert(one.name.as_str());
        }
        ordered
    }

    fn estimate(&self, source: &ListedDataset, step: &CopyStep) -> Result<Vec<StreamRow>> {
        let Some(send) = self.send_of(source, step, true) else {
            return Ok(Vec::new());
        };
        match self.owner.call(send)? {
            Reply::Streams(rows) => Ok(rows),
            _ => Err(unexpected()),
        }
    }

    /// The command that sends a step.
    fn send_of(
        &self,
        source: &ListedDataset,
        step: &CopyStep,
        estimate: bool,
    ) -> Option<command::Send> {
        let what = match step {
            CopyStep::Abandon => return None,
            CopyStep::Rest(token) => SendScope::Rest {
                token: token.clone(),
                of: Some(source.name.clone()),
            },
            CopyStep::Send { to, from, all } => SendScope::Snapshot {
                name: format!("{}{to}", source.name),
                from: from.clone(),
                all: *all,
                replicate: false,
            },
        };
        Some(command::Send {
            what,
            raw: true,
            props: true,
            estimate,
        })
    }

    /// Copies one dataset, marks what was copied, and prunes the copy.
    fn copy(&self, source: &ListedDataset, origin: Option<&str>, sides: &JobSides) -> Result<()> {
        let copy = self.copy_name(source);
        if source.snapshots.is_empty() {
            return Err(Failure::other(format!(
                "'{}' has no snapshot to copy; to make them: strongroom set snapshot-schedule=hourly:24 '{}'",
                source.name, self.one.name
            )));
        }
        let marks = SourceMarks {
            daemon: self.daemon,
            owner: &self.owner,
            progress: &self.progress,
            dataset: &source.name,
            prefix: self.marks_prefix(),
        };
        let mut target = sides.copy_of(&copy).cloned();
        let mut is_stuck = false;
        for round in 0.. {
            let steps = steps(source, target.as_ref(), origin, &marks.prefix)?;
            if steps.is_empty() {
                break;
            }
            if is_stuck || round == ROUNDS_MAX {
                return Err(Failure::other(format!(
                    "'{copy}' did not get all snapshots, and nothing says why; look at it there with: strongroom list -t all \
                     -r '{copy}'"
                )));
            }
            let before = newest(target.as_ref());
            let mut last = before;
            for part in steps.iter().flat_map(|step| parts(source, step)) {
                self.progress.check()?;
                if let Some(to) = part.brings.last() {
                    marks.keep(last, &part.brings)?;
                    last = Some(to.guid);
                }
                self.carry_out(source, &copy, &part.step)?;
            }
            let mut listed = self.side.list(&copy, false)?;
            target = match listed.is_empty() {
                true => None,
                false => Some(listed.remove(0)),
            };
            let is_send = |step: &CopyStep| matches!(step, CopyStep::Send { .. });
            is_stuck = steps.iter().all(is_send) && newest(target.as_ref()) == before;
        }
        if let Some(last) = newest(target.as_ref()) {
            marks.keep(Some(last), &[])?;
        }
        self.prune(target.as_ref())
    }

    fn carry_out(&self, source: &ListedDataset, copy: &str, step: &CopyStep) -> Result<()> {
        let Some(send) = self.send_of(source, step, false) else {
            return self.side.abandon(copy);
        };
        let said = match step {
            CopyStep::Send { to, .. } => format!("sends {}{to}", source.name),
            CopyStep::Rest(_) | CopyStep::Abandon => format!("sends the rest of {}", source.name),
        };
        let received = self.side.receive(send, copy, said);
        received.map_err(|failure| explained(failure, copy))
    }

    /// Destroys the snapshots of the copy that the job does not keep. The newest one always stays.
    fn prune(&self, target: Option<&ListedDataset>) -> Result<()> {
        let (Some(target), Some(schedule)) = (target, self.one.job.schedule()?) else {
            return Ok(());
        };
        for point in schedule.excess(&target.snapshots, short_name) {
            if target.snapshots.last() == Some(point) {
                continue;
            }
            self.progress.check()?;
            let name = format!("{}{}", target.name, point.name);
            match self.side.destroy(&name, point.guid) {
                // A hold or a clone keeps it.
                Err(failure) if failure.kind == FailureKind::Busy => {}
                outcome => outcome.map_err(|failure| failure.context("the copy is not pruned"))?,
            }
        }
        Ok(())
    }
}

impl JobSides {
    pub(super) fn copy_of(&self, name: &str) -> Option<&ListedDataset> {
        self.target.iter().find(|target| target.name == name)
    }

    /// Leaves out a dataset of the source, those below it, and clones of them.
    fn leave_out(&mut self, is_meant: impl Fn(&ListedDataset) -> bool) {
        let Some(name) = self.source.iter().find(|one| is_meant(one)) else {
            return;
        };
        let name = name.name.clone();
        let is_within = |other: &str| {
            let below = other.strip_prefix(&name);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        self.source.retain(|one| {
            let origin = one.origin.as_deref().map(dataset_of);
            !is_within(&one.name) && !origin.is_some_and(is_within)
        });
    }
}

/// The failure of a receive. A job never takes a copy back by itself.
fn explained(mut failure: Failure, copy: &str) -> Failure {
    const FORCE: &str = "-F takes it back to that";
    if failure.message.contains(FORCE) {
        let how = format!(
            "take it back to its newest snapshot with \"strongroom rollback '{copy}@SNAPSHOT'\", and mount it with -o ro"
        );
        failure.message = failure.message.replace(FORCE, &how);
    }
    failure
}

/// The guid of the newest snapshot of a copy.
fn newest(target: Option<&ListedDataset>) -> Option<u64> {
    Some(target?.snapshots.last()?.guid)
}

fn short_name(point: &SavePoint) -> &str {
    point.name.trim_start_matches('@')
}

fn dataset_of(name: &str) -> &str {
    name.split(['@', '#']).next().unwrap_or(name)
}
