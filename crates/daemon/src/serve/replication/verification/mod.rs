//! Verifies the copies of a job: the target reads all of them, and both sides prove that they have the same records.
//!
//! The two sides get the same challenge, which is drawn for each request. A target that is another host may lie in every
//! other word of its answer. But without the records it cannot compute the hash.

pub(super) mod compare;
pub(super) mod remote;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use cipher::{Random, SystemRandom};
use encoding::hex;
use pool::Entry;
use protocol::api::{CopyCondition, CopyReport, CopyRow, DatasetAnchor, VerifiedSnapshot};

use crate::failure::{Failure, Result};
use crate::host::process::system::now_secs;
use crate::ops::replication::list::JobOfDataset;
use crate::serve::replication::listing::{ListedDataset, SavePoint};
use crate::serve::replication::run::JobRun;
use crate::serve::replication::side::verify_here;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::replication::checks::{CheckKind, CheckOutcome};
use crate::state::replication::job::PENDING;
use crate::state::replication::progress::RunProgress;
use compare::{CopySeals, row_of_copy, row_of_pair};

/// The most snapshots of one request, and the most bytes of their names. They are on the command line of the other host.
const NAMES_MAX: usize = 400;
const NAME_BYTES: usize = 64 << 10;
/// The time between two looks at the caller.
const LOOK: Duration = Duration::from_millis(250);

/// Verifies the copies of a job, and notes the outcome. If the caller goes away, it ends.
pub(crate) fn verify_copies(
    daemon: &Arc<Daemon>,
    one: JobOfDataset,
    newest: bool,
    context: &mut CallerContext<'_>,
) -> Result<CopyReport> {
    let (tell, told) = channel();
    let checks = &daemon.replications.checks;
    let running = checks.begin(&one.key(), &one.job)?;
    let progress = Arc::clone(&running.progress);
    let work = {
        let (daemon, progress) = (Arc::clone(daemon), Arc::clone(&progress));
        move || {
            let outcome = report(&daemon, &one, newest, &progress);
            if progress.check().is_ok() {
                note(&daemon, &one, &outcome);
            }
            // The caller may be gone.
            let _ = tell.send(outcome);
        }
    };
    threads::start("replicate-check", work)
        .map_err(|error| Failure::other(format!("a thread could not be started: {error}")))?;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if context.channel.pause(Duration::ZERO) => {}
            Err(RecvTimeoutError::Timeout) => progress.stop("the caller went away"),
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the verification died; this is a defect of the program";
                return Err(Failure::other(why));
            }
        }
    }
}

/// Notes the outcome of a verification, and adds an event if it differs from the last one. A target that could not be asked
/// is no finding about the copy: the last finding stays.
fn note(daemon: &Daemon, one: &JobOfDataset, outcome: &Result<CopyReport>) {
    let Ok(report) = outcome else { return };
    let failure = report.failure();
    let checks = &daemon.replications.checks;
    let ended = CheckOutcome {
        time: report.ended,
        failure: failure.clone(),
    };
    if !checks.note(&one.key(), CheckKind::Verification, ended) {
        return;
    }
    let (job, name) = (&one.job.name, &one.name);
    let (class, told) = match failure {
        Some(why) => ("replicate_damage", format!("{job} of {name}: {why}")),
        None => (
            "replicate_whole",
            format!("{job} of {name}: all copies are whole"),
        ),
    };
    daemon.events.add(class, &one.active.pool.name(), &told);
}

fn report(
    daemon: &Arc<Daemon>,
    one: &JobOfDataset,
    newest: bool,
    progress: &Arc<RunProgress>,
) -> Result<CopyReport> {
    let begun = now_secs();
    let run = JobRun::new(daemon, one, progress)?;
    progress.enter(Some("compares both sides".into()), Vec::new())?;
    let sides = run.sides()?;
    let mut copies = Vec::new();
    for (source, _) in run.in_order(&sides) {
        let target = sides.copy_of(&run.copy_name(source));
        let verification = DatasetVerification {
            run: &run,
            source,
            newest,
        };
        copies.extend(verification.rows(target)?);
    }
    Ok(CopyReport {
        job: one.job.name.clone(),
        source: one.name.clone(),
        target: one.job.target.clone(),
        begun,
        ended: now_secs(),
        copies,
    })
}

/// The verification of the copy of one dataset.
struct DatasetVerification<'a> {
    run: &'a JobRun<'a>,
    source: &'a ListedDataset,
    newest: bool,
}

impl DatasetVerification<'_> {
    fn rows(&self, target: Option<&ListedDataset>) -> Result<Vec<CopyRow>> {
        let copy = self.run.copy_name(self.source);
        let copied = self.last_copied();
        let Some(target) = target.filter(|target| !target.snapshots.is_empty()) else {
            let is_expected = copied.is_some();
            let row =
                is_expected.then(|| compare::row_without(&copy, copied, CopyCondition::Missing));
            return Ok(row.into_iter().collect());
        };
        let at_source: BTreeSet<u64> = guids(&self.source.snapshots);
        let at_target: BTreeSet<u64> = guids(&target.snapshots);
        let points = |points: &[SavePoint], other: &BTreeSet<u64>, is_in: bool| {
            let kept = points.iter();
            let kept = kept.filter(|point| other.contains(&point.guid) == is_in);
            let mut kept: Vec<SavePoint> = kept.cloned().collect();
            if self.newest {
                kept.drain(..kept.len().saturating_sub(1));
            }
            kept
        };
        let both = points(&self.source.snapshots, &at_target, true);
        let mut rows = Vec::new();
        let alone = match self.newest && !both.is_empty() {
            true => Vec::new(),
            false => points(&target.snapshots, &at_source, false),
        };
        for batch in batches(&target.name, &alone) {
            rows.extend(self.without_source(&target.name, batch)?);
        }
        for batch in batches(&target.name, &both) {
            rows.extend(self.with_source(target, batch)?);
        }
        if let Some(guid) = copied.filter(|guid| !at_target.contains(guid)) {
            rows.push(compare::row_without(
                &copy,
                Some(guid),
                CopyCondition::Older,
            ));
        }
        Ok(rows)
    }

    /// The guid of the snapshot that the job copied last, as its bookmark says.
    fn last_copied(&self) -> Option<u64> {
        let prefix = self.run.marks_prefix();
        let marks = self.source.bookmarks.iter();
        let mut own =
            marks.filter(|mark| mark.name.starts_with(&prefix) && !mark.name.ends_with(PENDING));
        own.next_back().map(|mark| mark.guid)
    }

    /// The keys of the source, to check seals with. They are not kept while anything is read.
    fn seals(&self) -> Result<(CopySeals, Arc<Entry>)> {
        let (active, entry) = self.run.daemon.find(&self.source.name)?;
        let seals = CopySeals::of(&active, &entry);
        Ok((seals, entry))
    }

    /// Verifies snapshots that both sides have.
    fn with_source(&self, target: &ListedDataset, points: &[SavePoint]) -> Result<Vec<CopyRow>> {
        let challenge = challenge()?;
        let own: Vec<String> = names(&self.source.name, points);
        let named = |point: &SavePoint| {
            let mut all = target.snapshots.iter();
            let found = all.find(|there| there.guid == point.guid);
            format!("{}{}", target.name, found.map_or("", |there| &there.name))
        };
        let theirs: Vec<String> = points.iter().map(named).collect();
        self.enter(&target.name)?;
        let read = self.run.side.verify(&theirs, &challenge)?;
        self.enter(&self.source.name)?;
        let progress = &self.run.progress;
        let held = verify_here(&self.run.owner, progress, own, &challenge)?;
        let (seals, entry) = self.seals()?;
        let pairs = held.iter().zip(&read).zip(points);
        Ok(pairs
            .map(|((held, read), point)| CopyRow {
                anchor: self.anchor(&entry, read, point.txg),
                ..row_of_pair(held, read, &seals)
            })
            .collect())
    }

    /// Verifies snapshots that the source has destroyed.
    fn without_source(&self, target: &str, points: &[SavePoint]) -> Result<Vec<CopyRow>> {
        self.enter(target)?;
        let challenge = challenge()?;
        let read = self.run.side.verify(&names(target, points), &challenge)?;
        let (seals, entry) = self.seals()?;
        let rows = read.iter().map(|read| CopyRow {
            anchor: self.anchor(&entry, read, 0),
            ..row_of_copy(read, &seals)
        });
        Ok(rows.collect())
    }

    fn enter(&self, name: &str) -> Result<()> {
        let step = Some(format!("verifies {name}"));
        self.run.progress.enter(step, Vec::new())
    }

    /// The state of a copy as an anchor of its source, where it can be compared with the history of seals.
    fn anchor(&self, source: &Entry, read: &VerifiedSnapshot, txg: u64) -> Option<DatasetAnchor> {
        let sequence = compare::input_of(read)?.sequence;
        read.encrypted.then(|| DatasetAnchor {
            dataset: self.source.name.clone(),
            pool_guid: self.run.one.active.pool.guid(),
            txg,
            guid: source.guid,
            sequence,
            seal: read.seal.clone(),
        })
    }
}

fn guids(points: &[SavePoint]) -> BTreeSet<u64> {
    points.iter().map(|point| point.guid).collect()
}

fn names(dataset: &str, points: &[SavePoint]) -> Vec<String> {
    let name = |point: &SavePoint| format!("{dataset}{}", point.name);
    points.iter().map(name).collect()
}

fn challenge() -> Result<String> {
    let mut challenge = [0; 32];
    let drawn = SystemRandom.fill(&mut challenge);
    drawn.map_err(|error| Failure::other(error.to_string()))?;
    Ok(hex(&challenge))
}

/// The snapshots in groups that fit into one request.
fn batches<'p>(dataset: &str, points: &'p [SavePoint]) -> Vec<&'p [SavePoint]> {
    let (mut batches, mut rest) = (Vec::new(), points);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(NAMES_MAX).take_while(|point| {
            // Quoting may make a name four times as long.
            bytes += 4 * (dataset.len() + point.name.len());
            bytes <= NAME_BYTES
        });
        let (batch, more) = rest.split_at(fits.count().max(1));
        batches.push(batch);
        rest = more;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_all_snapshots_in_order() {
        let point = |number: usize| SavePoint {
            name: format!("@{}{number}", "x".repeat(200)),
            guid: number as u64,
            txg: number as u64,
        };
        let points: Vec<SavePoint> = (0..1000).map(point).collect();
        let all = batches("tank/a", &points);
        assert!(all.len() > 3);
        assert_eq!(all.concat(), points);
        assert!(batches("tank/a", &[]).is_empty());
        // Even a name that is too long is sent, and refused there.
        assert_eq!(batches(&"x".repeat(NAME_BYTES), &points[..2]).len(), 2);
    }
}
