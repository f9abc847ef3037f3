//! `replicate verify`: compares the copies of a job with their source, and writes reports.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, size, time};
use daemon::anchor_line;
use protocol::api::{CopyReport, CopyRow, Failure, FailureKind, command};

use crate::cmd::replicate::job::{JobName, source_of};
use crate::cmd::send::verify::lost_part;

/// Check that the copies of a job are whole
///
/// The target reads every record of each snapshot that both sides have and checks it; it needs no key. Then both
/// sides hash these records with a key that was just drawn. A target that does not have the records cannot tell the
/// hash. So a host that holds a copy without the key proves that it holds it, unchanged and whole. If the key is
/// loaded here, the seal of each copy is checked too; a dataset that was never written has none (`unsealed`). Nobody can
/// compare snapshots that the source has destroyed:
/// their seals are checked, and their records are the word of the host.
///
/// Both sides read what the snapshot before does not have. So a copy is proved only if all earlier ones are. --newest
/// reads only the newest one, all of it. It never ends a failure that is about other copies.
/// `replicate status` shows the last verification. A copy that is not whole gives an event and an alert.
///
/// --report writes what was found for people. It has an anchor of each state that the source or a key confirms.
/// `anchor verify` compares these with the dataset at any time, without the target. A report has no signature: keep
/// it where the target cannot write.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All copies of a job; the newest one, with a report that is checked later:
    strongroom replicate verify offsite
    strongroom replicate verify --newest --report offsite-monday.txt offsite
    strongroom anchor verify offsite-monday.txt

STATES
  whole           every record is proved, and the copy has the state of its source
  claimed         the source has destroyed the snapshot; the host says that it is whole
  damaged         records are damaged or cannot be read, or are not those of the source
  unproved        it shares records with an earlier copy that is not proved
  source-damaged  the source cannot read its own records, so it compares nothing
  older           the copy has an older state, or not the snapshot that was copied last
  mixed           its parts are of several states
  replaced        it has a state that the source never had
  missing         the job has copied it or a later one, and it is not there

JSON
  {\"job\", \"source\", \"target\", \"begun\", \"ended\", \"copies\": [{\"source\", \"copy\", \"guid\", \"created\",
  \"state\", \"why\", \"proved\", \"seal\": right|wrong|no-key|unsealed|clear, \"records\", \"bytes\",
  \"lost\": [...], \"anchor\"}, ...]}, where \"source\" is null if the source has destroyed the snapshot.

EXIT CODES
  3 if there is no such job, or no copy yet; 4 if the file of --report exists; 5 if the copy is
  being checked already; 6 if a right is missing; 9 if a copy is neither whole nor claimed, or a
  seal is wrong.")]
pub(crate) struct JobVerify {
    /// Read only the newest copy of each dataset
    #[arg(long)]
    pub(crate) newest: bool,
    /// Write a report into a new file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) job: JobName,
}

pub(crate) fn run(args: &JobVerify, session: &mut Session) -> Result {
    let (name, source) = (args.job.name.clone(), source_of(&args.job, session)?);
    let newest = args.newest;
    // Before anything is read, which may take hours.
    args.report.as_deref().map_or(Ok(()), check_new)?;
    let command = command::ReplicateVerify {
        name,
        source,
        newest,
    };
    let report = answer!(session.call(command)?, CopyReport)?;
    let path = args.report.as_deref();
    let written = path.map_or(Ok(()), |path| write_new(path, &report_text(&report)));
    let text = match session.json {
        true => json::show(&report),
        false => shown(&report),
    };
    Ok(Outcome {
        text,
        failures: failure(&report).into_iter().chain(written.err()).collect(),
        ..Outcome::default()
    })
}

/// Refuses a file that exists, or cannot be made.
fn check_new(path: &Path) -> Result<()> {
    let found = match path.symlink_metadata() {
        Ok(_) => ErrorKind::AlreadyExists.into(),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => error,
            _ => return Ok(()),
        },
        Err(error) => error,
    };
    Err(not_made(path, &found))
}

/// Writes a new file for its owner alone: the report has names of datasets and snapshots.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).map_err(|error| not_made(path, &error))?;
    let written = file.write_all(text.as_bytes());
    let synced = written.and_then(|()| file.sync_all());
    synced.map_err(|error| {
        let _ = std::fs::remove_file(path);
        Failure {
            kind: FailureKind::Other,
            message: format!("{} cannot be written: {error}", path.display()),
        }
    })
}

fn not_made(path: &Path, error: &Error) -> Failure {
    Failure {
        kind: match error.kind() {
            ErrorKind::AlreadyExists => FailureKind::Exists,
            _ => FailureKind::Other,
        },
        message: format!("{} cannot be made: {error}", path.display()),
    }
}

fn shown(report: &CopyReport) -> String {
    let columns = [
        Column::left("COPY"),
        Column::left("STATE"),
        Column::left("PROVED"),
        Column::left("SEAL"),
        Column::right("READ"),
    ];
    let cells = report.copies.iter().map(|row| {
        vec![
            row.copy.clone(),
            row.state.word().into(),
            proved(row).into(),
            row.seal.word().into(),
            size::show(row.bytes, false),
        ]
    });
    let table = table::show(&columns, &cells.collect::<Vec<_>>(), false);
    table + &report.copies.iter().map(reasons).collect::<String>()
}

fn proved(row: &CopyRow) -> &'static str {
    match row.proved {
        true => "yes",
        false => "no",
    }
}

/// The reasons why a copy is not whole, a line for each.
fn reasons(row: &CopyRow) -> String {
    let lost = row.lost.iter().map(lost_part);
    let lines = row.why.clone().into_iter().chain(lost);
    lines.map(|why| format!("{}: {why}\n", row.copy)).collect()
}

/// The report: comments for people, and anchors for `anchor verify`.
fn report_text(report: &CopyReport) -> String {
    let (begun, ended) = (time::history(report.begun), time::history(report.ended));
    let mut text = format!(
        "# Verification of the copies of {} at {}, by the job {}, from {begun} to {ended}.\n\
         # 'strongroom anchor verify' with this file shows, with the key, that these copies have states from which\n\
         # the dataset has grown. Nothing in this file proves what the target had: that was proved to its writer.\n",
        report.source, report.target, report.job
    );
    for row in &report.copies {
        text += &format!(
            "#\n# {}: {}, proved: {}, seal: {}, guid {:016x}, {} records, {} bytes\n",
            row.copy,
            row.state.word(),
            proved(row),
            row.seal.word(),
            row.guid,
            row.records,
            row.bytes
        );
        text += &reasons(row)
            .lines()
            .fold(String::new(), |all, line| all + "# " + line + "\n");
        if let Some(anchor) = &row.anchor {
            text += &(anchor_line::write(anchor) + "\n");
        }
    }
    text
}

fn failure(report: &CopyReport) -> Option<Failure> {
    if report.copies.is_empty() {
        let (job, source) = (&report.job, &report.source);
        return Some(Failure {
            kind: FailureKind::NotFound,
            message: format!(
                "there is no copy yet; to make it: strongroom replicate run {job} {source}"
            ),
        });
    }
    report.failure().map(|message| Failure {
        kind: FailureKind::Damaged,
        message,
    })
}

#[cfg(test)]
mod tests {
    use protocol::api::{CopyCondition, DatasetAnchor, SealFinding};

    use super::*;

    fn row(state: CopyCondition) -> CopyRow {
        CopyRow {
            source: Some("tank/a@1".into()),
            copy: "safe/a@1".into(),
            guid: 1,
            created: Some(2),
            state,
            why: (state != CopyCondition::Whole).then(|| "a reason".into()),
            proved: state == CopyCondition::Whole,
            seal: SealFinding::Right,
            records: 3,
            bytes: 4,
            lost: Vec::new(),
            anchor: (state == CopyCondition::Whole).then(|| DatasetAnchor {
                dataset: "tank/a".into(),
                pool_guid: 5,
                txg: 6,
                guid: 7,
                sequence: 8,
                seal: "0a".repeat(32),
            }),
        }
    }

    fn report(copies: Vec<CopyRow>) -> CopyReport {
        CopyReport {
            job: "copy".into(),
            source: "tank/a".into(),
            target: "safe/a".into(),
            begun: 0,
            ended: 1,
            copies,
        }
    }

    #[test]
    fn a_report_has_the_anchors_of_its_rows() {
        let text = report_text(&report(vec![
            row(CopyCondition::Whole),
            row(CopyCondition::Mixed),
        ]));
        let (comments, anchors): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('#'));
        assert_eq!(anchors.len(), 1);
        assert!(anchor_line::read(anchors[0]).is_some());
        assert!(comments.contains(&"# safe/a@1: a reason"));
    }

    #[test]
    fn anything_but_whole_and_proved_copies_fails() {
        let kind = |copies| failure(&report(copies)).map(|failure| failure.kind);
        assert_eq!(kind(vec![row(CopyCondition::Whole)]), None);
        assert_eq!(kind(Vec::new()), Some(FailureKind::NotFound));
        let bad = vec![row(CopyCondition::Whole), row(CopyCondition::Older)];
        assert_eq!(kind(bad), Some(FailureKind::Damaged));
        let wrong = CopyRow {
            seal: SealFinding::Wrong,
            ..row(CopyCondition::Whole)
        };
        assert_eq!(kind(vec![wrong]), Some(FailureKind::Damaged));
        assert_eq!(kind(vec![row(CopyCondition::Claimed)]), None);
        for state in [CopyCondition::Unproved, CopyCondition::SourceDamaged] {
            assert_eq!(kind(vec![row(state)]), Some(FailureKind::Damaged));
        }
        // A copy that is wrong is named before one that only is not proved.
        let several = vec![row(CopyCondition::SourceDamaged), row(CopyCondition::Mixed)];
        let told = failure(&report(several)).unwrap().message;
        assert_eq!(told, "the copy safe/a@1 is mixed: a reason");
    }
}
