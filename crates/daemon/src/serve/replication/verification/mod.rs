//! Verifies the copies of a job: the target reads all of them, and both sides prove that they have the same records.
//!
//! The two sides get the same challenge, which is drawn for each request. A target that is another host may lie in every
//! other word of its answer. But without the records it cannot compute the hash.

pub(super) mod compare;
pub(super) mod remote;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use cipher::{Random, SystemRandom};
use encoding::hex;
use pool::Entry;
use protocol::api::{
    CopyCondition, CopyReport, CopyRow, DatasetAnchor, SealFinding, VerifiedSnapshot,
};

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
use compare::{CopySeals, ProofChain, ReadCopy, check_order, row_of_copy, row_of_pair};

/// The most snapshots of one request, and the most bytes of their names. They are on the command line of the other host.
const NAMES_MAX: usize = 400;
const NAME_BYTES: usize = 64 << 10;
/// The longest reason of a failed attempt that is remembered, in characters.
const FAILURE_MAX: usize = 500;
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
                note(&daemon, &one, newest, &outcome);
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
/// is no finding about the copy: the last finding stays, with the failed attempt.
fn note(daemon: &Daemon, one: &JobOfDataset, newest: bool, outcome: &Result<CopyReport>) {
    let checks = &daemon.replications.checks;
    let ended = |failure| CheckOutcome {
        time: now_secs(),
        failure,
        newest,
    };
    let note = |failure| checks.note(&one.key(), CheckKind::Verification, ended(failure));
    let (is_new, class, told) = match outcome {
        Err(failure) => {
            let why: String = failure.message.chars().take(FAILURE_MAX).collect();
            let told = format!("the copies were not verified: {why}");
            let is_new = checks.note_attempt(&one.key(), ended(Some(why)));
            (is_new, "replicate_verify_fail", told)
        }
        Ok(report) if !report.has_finding() => return,
        Ok(report) => match report.failure() {
            Some(why) => (note(Some(why.clone())), "replicate_damage", why),
            None => {
                let told = match newest {
                    true => "the newest copies are whole",
                    false => "all copies are whole",
                };
                (note(None), "replicate_whole", told.to_owned())
            }
        },
    };
    if !is_new {
        return;
    }
    let (job, name) = (&one.job.name, &one.name);
    let told = format!("{job} of {name}: {told}");
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
        let copied_guid = copied.map(|point| point.guid);
        let Some(target) = target.filter(|target| !target.snapshots.is_empty()) else {
            let is_expected = copied.is_some();
            let row = is_expected
                .then(|| compare::row_without(&copy, copied_guid, CopyCondition::Missing));
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
        let mut copies = Vec::new();
        let alone = match self.newest && !both.is_empty() {
            true => Vec::new(),
            false => points(&target.snapshots, &at_source, false),
        };
        for batch in batches(&target.name, &alone) {
            copies.extend(self.without_source(&target.name, batch)?);
        }
        for batch in batches(&target.name, &both) {
            copies.extend(self.with_source(target, batch)?);
        }
        // The rows of a group are in this order already.
        let order = target.snapshots.iter().enumerate();
        let order: BTreeMap<u64, usize> = order.map(|(at, point)| (point.guid, at)).collect();
        copies.sort_by_key(|copy| order.get(&copy.guid));
        let mut copies: Vec<ReadCopy> = copies.into_iter().map(|copy| copy.copy).collect();
        check_order(&mut copies);
        let mut rows: Vec<CopyRow> = copies.into_iter().map(|copy| copy.row).collect();
        if let Some(copied) = copied.filter(|_| !self.newest) {
            rows.extend(self.gaps(target, copied)?);
        }
        if let Some(guid) = copied_guid.filter(|guid| !at_target.contains(guid)) {
            rows.push(compare::row_without(
                &copy,
                Some(guid),
                CopyCondition::Older,
            ));
        }
        Ok(rows)
    }

    /// The rows of the snapshots that the target does not list, although the job has copied a later one. Those that the job
    /// does not keep are left out.
    fn gaps(&self, target: &ListedDataset, copied: &SavePoint) -> Result<Vec<CopyRow>> {
        let points = missing(&self.source.snapshots, &target.snapshots, copied.txg);
        let schedule = self.run.one.job.schedule()?;
        let pruned: BTreeSet<u64> = schedule
            .iter()
            .flat_map(|schedule| {
                let all = with_missing(&self.source.snapshots, &target.snapshots, &points);
                let excess = schedule.excess(&all, |point| point.name.trim_start_matches('@'));
                excess
                    .into_iter()
                    .map(|point| point.guid)
                    .collect::<Vec<_>>()
            })
            .collect();
        let is_gap =
            |point: &&SavePoint| point.guid != copied.guid && !pruned.contains(&point.guid);
        let row = |point: &SavePoint| {
            let source = format!("{}{}", self.source.name, point.name);
            let copy = format!("{}{}", target.name, point.name);
            compare::row_of_gap(source, &copy, point.guid)
        };
        Ok(points.iter().filter(is_gap).map(row).collect())
    }

    /// The snapshot that the job copied last, as its bookmark says.
    fn last_copied(&self) -> Option<&SavePoint> {
        let prefix = self.run.marks_prefix();
        let marks = self.source.bookmarks.iter();
        let mut own =
            marks.filter(|mark| mark.name.starts_with(&prefix) && !mark.name.ends_with(PENDING));
        own.next_back()
    }

    /// The keys of the source, to check seals with. They are not kept while anything is read.
    fn seals(&self) -> Result<(CopySeals, Arc<Entry>)> {
        let (active, entry) = self.run.daemon.find(&self.source.name)?;
        let seals = CopySeals::of(&active, &entry);
        Ok((seals, entry))
    }

    /// Verifies snapshots that both sides have.
    fn with_source(
        &self,
        target: &ListedDataset,
        points: &[SavePoint],
    ) -> Result<Vec<CopyOfPoint>> {
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
        let mut chain = ProofChain::new();
        let mut copies = Vec::new();
        for ((held, read), point) in held.iter().zip(read).zip(points) {
            if held.guid != point.guid {
                return Err(Failure::other(format!(
                    "{} was replaced while it was verified; run the command again",
                    held.name
                )));
            }
            let row = row_of_pair(held, &read, &seals, &mut chain);
            copies.push(self.copy(point, &entry, row, read));
        }
        Ok(copies)
    }

    /// Verifies snapshots that the source has destroyed.
    fn without_source(&self, target: &str, points: &[SavePoint]) -> Result<Vec<CopyOfPoint>> {
        self.enter(target)?;
        let challenge = challenge()?;
        let read = self.run.side.verify(&names(target, points), &challenge)?;
        let (seals, entry) = self.seals()?;
        let copies = read.into_iter().zip(points).map(|(read, point)| {
            let row = row_of_copy(&read, point.guid, &seals);
            // The transaction group is of another pool.
            let point = SavePoint {
                txg: 0,
                ..point.clone()
            };
            self.copy(&point, &entry, row, read)
        });
        Ok(copies.collect())
    }

    fn enter(&self, name: &str) -> Result<()> {
        let step = Some(format!("verifies {name}"));
        self.run.progress.enter(step, Vec::new())
    }

    /// The row with its anchor. The host chose the state: it is an anchor if it is that of the source, or if a key confirms it.
    fn copy(
        &self,
        point: &SavePoint,
        source: &Entry,
        row: CopyRow,
        read: VerifiedSnapshot,
    ) -> CopyOfPoint {
        let is_confirmed = match row.state {
            CopyCondition::Whole => !matches!(row.seal, SealFinding::Wrong | SealFinding::Unsealed),
            CopyCondition::Claimed => row.seal == SealFinding::Right,
            _ => false,
        };
        let anchor = is_confirmed.then(|| self.anchor(source, &read, point.txg));
        let row = CopyRow {
            anchor: anchor.flatten(),
            ..row
        };
        CopyOfPoint {
            guid: point.guid,
            copy: ReadCopy { row, read },
        }
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

/// A copy, with the guid that the listing of the target has for it.
struct CopyOfPoint {
    guid: u64,
    copy: ReadCopy,
}

/// The snapshots of the source up to transaction group `txg` that the target does not list.
fn missing(source: &[SavePoint], target: &[SavePoint], txg: u64) -> Vec<SavePoint> {
    let at_target = guids(target);
    let points = source.iter();
    let points = points.filter(|point| point.txg <= txg && !at_target.contains(&point.guid));
    points.cloned().collect()
}

/// The snapshots of the target as if it had those that are missing too, the oldest first. The order of a missing one and of
/// those that the source has destroyed is not known: the missing one counts as older.
fn with_missing(
    source: &[SavePoint],
    target: &[SavePoint],
    missing: &[SavePoint],
) -> Vec<SavePoint> {
    let txgs: BTreeMap<u64, u64> = source.iter().map(|point| (point.guid, point.txg)).collect();
    let is_older = |there: &SavePoint, point: &SavePoint| {
        let txg = txgs.get(&there.guid);
        txg.is_some_and(|txg| *txg < point.txg)
    };
    let mut all = target.to_vec();
    for point in missing {
        let last = all.iter().rposition(|there| is_older(there, point));
        all.insert(last.map_or(0, |last| last + 1), point.clone());
    }
    all
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
    fn snapshots_that_the_target_leaves_out_are_missing() {
        let points = |numbers: &[u64]| -> Vec<SavePoint> {
            let point = |number: &u64| SavePoint {
                name: format!("@{number}"),
                guid: *number,
                txg: *number,
            };
            numbers.iter().map(point).collect()
        };
        let guids_of =
            |points: &[SavePoint]| -> Vec<u64> { points.iter().map(|point| point.guid).collect() };
        let source = points(&[1, 3, 5, 6, 8]);
        let gone = missing(&source, &points(&[3, 4, 6]), 6);
        assert_eq!(guids_of(&gone), [1, 5]);
        // The source has destroyed 4.
        let all = with_missing(&source, &points(&[3, 4, 6]), &gone);
        assert_eq!(guids_of(&all), [1, 3, 5, 4, 6]);
    }

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
