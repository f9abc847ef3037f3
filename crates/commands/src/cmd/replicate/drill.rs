//! `replicate drill`: restores from a copy, to see whether that works.

use std::path::{Path, PathBuf};

use adopt::drill::{DrillOutcome, MountedSnapshot, drill};
use clap::Args;
use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, usage};
use console::show::{json, size};
use protocol::api::{
    DatasetRow, Failure, FailureKind, MountRow, PropertyValue, ReplicationRow, command,
};
use serde::Serialize;

use crate::cmd::replicate::job::{JobName, find};

/// Restore from the copy of a job, to see that it works
///
/// Takes the newest snapshot that both sides have. Compares the names, kinds, sizes and times of all files, and the
/// contents and attributes of a sample, which is drawn at random each time. Then it restores one of these files into
/// memory, and compares it with its source. The copy has to be mounted, with its own key. So the drill also shows
/// whether the key of the copy is still there. Nothing is changed.
///
/// `replicate status` shows the last drill. A copy that was never restored is shown as such. `replicate verify` reads
/// all records of a copy and needs no key; a drill opens them.
///
/// Copies on other hosts, and the datasets below the source of a job with -R, are not compared.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The copy in the pool backup, with its key; then all files:
    strongroom key load backup/home
    strongroom mount -o ro backup/home
    strongroom replicate drill local
    strongroom replicate drill --all local

JSON
  {\"snapshot\", \"copy\", \"files\", \"compared\", \"bytes\", \"restored\", \"differences\": [...], \"count\"}

EXIT CODES
  2 if the copy is on another host; 3 if there is no such job, or no snapshot that both sides have;
  8 if one of the two is not mounted; 9 if a file differs or cannot be restored.")]
pub(crate) struct JobDrill {
    /// The number of files whose contents are compared
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "100",
        conflicts_with = "all"
    )]
    pub(crate) sample: usize,
    /// Compare the contents of all files
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) job: JobName,
}

/// The outcome, as JSON.
#[derive(Serialize)]
struct DrillReport<'a> {
    snapshot: &'a str,
    copy: &'a str,
    files: u64,
    compared: u64,
    bytes: u64,
    restored: Option<String>,
    differences: &'a [String],
    count: u64,
}

/// A snapshot that both sides have, by its names.
struct CommonSnapshot {
    source: String,
    copy: String,
}

pub(crate) fn run(args: &JobDrill, session: &mut Session) -> Result {
    let job = find(&args.job, session)?;
    if job.target.contains("://") {
        return Err(usage(format!(
            "the copy of '{}' is on another host; receive it in a pool here to restore from it, or check it with: \
             strongroom replicate verify {}",
            job.name, job.name
        )));
    }
    let common = newest_common(&job, session)?;
    let mounts = answer!(session.call(protocol::api::Command::Mounts)?, Mounts)?;
    let dirs = [&job.source, &job.target].map(|name| mount_of(&mounts, name));
    let [source, copy] = dirs;
    let (source, copy) = (source?, copy?);
    let sample = (!args.all).then_some(args.sample);
    let outcome = drill(
        mounted(&source, &common.source),
        mounted(&copy, &common.copy),
        sample,
    );
    let failure = match &outcome {
        Ok(outcome) => failure_of(outcome, &common),
        Err(failure) => Some(failure.message.clone()),
    };
    let noted = command::ReplicateDrilled {
        name: job.name,
        source: job.source,
        failure: failure.clone(),
    };
    call_quiet(session, noted)?;
    let outcome = outcome?;
    let failure = failure.map(|message| Failure {
        kind: FailureKind::Damaged,
        message,
    });
    Ok(Outcome {
        text: shown(&outcome, &common, session.json),
        failures: failure.into_iter().collect(),
        ..Outcome::default()
    })
}

/// The newest snapshot of a source that its copy has too, by its guid.
fn newest_common(job: &ReplicationRow, session: &mut Session) -> Result<CommonSnapshot> {
    let mut of = |name: &String| -> Result<Vec<(u64, u64, String)>> {
        let command = command::Get {
            names: vec![name.clone()],
            depth: Some(1),
            snapshots: true,
            bookmarks: false,
            props: ["guid", "createtxg"].map(str::to_owned).to_vec(),
        };
        let rows = answer!(session.call(command)?, Datasets)?;
        let own = rows.iter().filter(|row| {
            let dataset = row.name.split_once('@').map(|(dataset, _)| dataset);
            dataset == Some(name.as_str())
        });
        let mut own: Vec<(u64, u64, String)> = own
            .map(|row| {
                (
                    number(row, "createtxg"),
                    number(row, "guid"),
                    row.name.clone(),
                )
            })
            .collect();
        own.sort();
        Ok(own)
    };
    let (own, copies) = (of(&job.source)?, of(&job.target)?);
    let mut newest = own.into_iter().rev();
    let found = newest.find_map(|(_, guid, source)| {
        let mut copies = copies.iter();
        let (_, _, copy) = copies.find(|(_, copy, _)| *copy == guid)?;
        let copy = copy.clone();
        Some(CommonSnapshot { source, copy })
    });
    found.ok_or_else(|| Failure {
        kind: FailureKind::NotFound,
        message: format!(
            "'{}' and '{}' have no snapshot in common; to copy one: strongroom replicate run {}",
            job.source, job.target, job.name
        ),
    })
}

fn number(row: &DatasetRow, property: &str) -> u64 {
    let mut props = row.props.iter();
    let found = props.find(|prop| prop.property == property);
    match found.map(|prop| &prop.value) {
        Some(PropertyValue::Number(number)) => *number,
        Some(PropertyValue::Text(text)) => text.parse().unwrap_or(0),
        _ => 0,
    }
}

fn mount_of(mounts: &[MountRow], name: &str) -> Result<PathBuf> {
    let mut mounts = mounts.iter();
    let found = mounts.find(|mount| mount.name == name);
    found.map(|mount| mount.dir.clone().into()).ok_or_else(|| Failure {
        kind: FailureKind::NoKey,
        message: format!(
            "'{name}' is not mounted; load its key and mount it: strongroom mount -l -o ro {name}"
        ),
    })
}

fn mounted<'a>(dir: &'a Path, name: &'a str) -> MountedSnapshot<'a> {
    let snapshot = name.split_once('@').map_or("", |(_, snapshot)| snapshot);
    MountedSnapshot { dir, snapshot }
}

fn failure_of(outcome: &DrillOutcome, common: &CommonSnapshot) -> Option<String> {
    let first = outcome.differences.first()?;
    let (count, copy) = (outcome.count, &common.copy);
    Some(match count {
        1 => format!("{copy} differs from its source: {first}"),
        _ => format!("{count} files of {copy} differ from their source, such as {first}"),
    })
}

fn shown(outcome: &DrillOutcome, common: &CommonSnapshot, as_json: bool) -> String {
    let restored = outcome.restored.as_ref();
    let restored = restored.map(|path| path.display().to_string());
    if as_json {
        return json::show(&DrillReport {
            snapshot: &common.source,
            copy: &common.copy,
            files: outcome.files,
            compared: outcome.compared,
            bytes: outcome.bytes,
            restored,
            differences: &outcome.differences,
            count: outcome.count,
        });
    }
    let lines = outcome.differences.iter().map(|line| format!("{line}\n"));
    let mut text: String = lines.collect();
    text += &format!(
        "{}: {} of {} files compared, {}\n",
        common.copy,
        outcome.compared,
        outcome.files,
        size::show(outcome.bytes, false)
    );
    text += &match restored {
        Some(path) => format!("restored: {path}\n"),
        None => "restored: nothing, because no file in the sample has contents\n".to_owned(),
    };
    text
}
