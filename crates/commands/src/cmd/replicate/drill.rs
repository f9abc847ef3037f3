//! `replicate drill`: restores from a copy, to see whether that works.

use std::path::{Path, PathBuf};

use adopt::drill::{DrillOutcome, MountedSnapshot, drill};
use clap::Args;
use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, usage};
use console::show::text::printable;
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
/// memory, and compares it with its source. Of a large file it restores the first 256 MiB. The copy has to be mounted,
/// with its own key. So the drill also shows whether the key of the copy is still there. Nothing is changed.
///
/// `replicate status` shows the last drill, without names of files. A copy that was never restored is shown as such.
/// `replicate verify` reads all records of a copy and needs no key; a drill opens them.
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
  2 if the copy is on another host; 3 if there is no such job, no snapshot that both sides have,
  or nothing to restore; 8 if one of the two is not mounted; 9 if a file differs or cannot be
  restored.")]
pub(crate) struct JobDrill {
    /// The number of files whose contents are compared
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "100",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "all"
    )]
    pub(crate) sample: u32,
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
    let sample = (!args.all).then_some(args.sample as usize);
    let outcome = drill(
        mounted(&source, &common.source),
        mounted(&copy, &common.copy),
        sample,
    );
    // Names of files may be secret. The daemon shows what it notes to others.
    let (note, failure) = match &outcome {
        Ok(outcome) => findings(outcome, &common),
        Err(failure) => {
            let note = format!("the files of {} could not be read", common.copy);
            (Some(Some(note)), Some(failure.clone()))
        }
    };
    let noted = note.map(|failure| command::ReplicateDrilled {
        name: job.name,
        source: job.source,
        failure,
    });
    let noted = noted.map_or(Ok(()), |noted| call_quiet(session, noted).map(drop));
    let text = outcome.map(|outcome| shown(&outcome, &common, session.json));
    Ok(Outcome {
        text: text.unwrap_or_default(),
        failures: failure.into_iter().chain(noted.err()).collect(),
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

/// The failure to note, if anything is to be noted, and the failure of the command.
fn findings(
    outcome: &DrillOutcome,
    common: &CommonSnapshot,
) -> (Option<Option<String>>, Option<Failure>) {
    let failure = |kind, message| Some(Failure { kind, message });
    let copy = &common.copy;
    let differs = match outcome.count {
        0 => None,
        1 => Some(format!("1 file of {copy} differs from its source")),
        count => Some(format!("{count} files of {copy} differ from their source")),
    };
    if let Some(message) = differs {
        let failed = failure(FailureKind::Damaged, message.clone());
        return (Some(Some(message)), failed);
    }
    if outcome.restored.is_some() {
        return (Some(None), None);
    }
    // Without a restored file this was no drill.
    let message = format!(
        "nothing of {copy} was restored, because no compared file has contents; compare more files with --sample or --all"
    );
    (None, failure(FailureKind::NotFound, message))
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
        // Users choose the names of files.
        Some(path) => format!("restored: {}\n", printable(&path)),
        None => "restored: nothing\n".to_owned(),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_not_noted_and_a_drill_without_a_restore_is_not() {
        let common = CommonSnapshot {
            source: "tank/a@1".into(),
            copy: "safe/a@1".into(),
        };
        let outcome = |restored: Option<&str>, differences: &[&str]| DrillOutcome {
            restored: restored.map(PathBuf::from),
            differences: differences.iter().map(|line| (*line).to_owned()).collect(),
            count: differences.len() as u64,
            ..DrillOutcome::default()
        };
        let hostile = shown(&outcome(Some("a\x1b[2Jb"), &[]), &common, false);
        assert!(!hostile.contains('\x1b'), "{hostile:?}");
        let found = |outcome: DrillOutcome| {
            let (note, failure) = findings(&outcome, &common);
            (note, failure.map(|failure| failure.kind))
        };
        assert_eq!(found(outcome(Some("x"), &[])), (Some(None), None));
        assert_eq!(
            found(outcome(None, &[])),
            (None, Some(FailureKind::NotFound))
        );
        let (note, kind) = found(outcome(Some("x"), &["secret: is missing", "other: too"]));
        assert_eq!(kind, Some(FailureKind::Damaged));
        let note = note.flatten().unwrap();
        assert_eq!(note, "2 files of safe/a@1 differ from their source");
    }
}
