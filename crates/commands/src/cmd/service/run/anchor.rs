//! `anchor`: lines that are kept elsewhere to detect a rollback.

use std::io::Read;
use std::path::Path;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer};
use console::show::json;
use console::show::table::{self, Column};
use daemon::anchor_line;
use protocol::api::{
    AnchorDoubt, AnchorOutcome, AnchorRow, DatasetAnchor, Failure, FailureKind, command,
};

use crate::cmd::service::args;

pub(crate) fn run(args: args::AnchorArgs, session: &mut Session) -> Result {
    match args.command {
        None => print(args.datasets, session),
        Some(args::AnchorCommand::Verify { file }) => verify(file.as_deref(), session),
        Some(args::AnchorCommand::Accept { names }) => {
            call_quiet(session, command::AnchorAccept { names })
        }
    }
}

fn print(names: Vec<String>, session: &mut Session) -> Result {
    let anchors = answer!(session.call(command::Anchor { names })?, Anchors)?;
    if session.json {
        return Ok(Outcome::text(json::show(&anchors)));
    }
    let lines = anchors
        .iter()
        .map(|anchor| anchor_line::write(anchor) + "\n");
    Ok(Outcome::text(lines.collect::<String>()))
}

fn verify(file: Option<&Path>, session: &mut Session) -> Result {
    let anchors = anchors(&read(file)?)?;
    let rows = answer!(session.call(command::AnchorVerify { anchors })?, AnchorRows)?;
    let text = match session.json {
        true => json::show(&rows),
        false => report(&rows),
    };
    Ok(Outcome {
        text,
        failures: failure(&rows).into_iter().collect(),
        ..Outcome::default()
    })
}

/// The failure for the worst rows, unless each dataset is proved.
fn failure(rows: &[AnchorRow]) -> Option<Failure> {
    let count = |is_its: &dyn Fn(&AnchorRow) -> bool| rows.iter().filter(|row| is_its(row)).count();
    let unknown = count(&|row| row.doubt.is_some());
    let bad = count(&|row| is_bad(row.outcome));
    let no_key = count(&|row| row.doubt == Some(AnchorDoubt::NoKey));
    let all = rows.len();
    let (kind, message) = match (bad, no_key, unknown) {
        (1.., ..) => (
            FailureKind::Damaged,
            format!(
                "{bad} of {all} anchored datasets are rolled back, forked, replaced or missing"
            ),
        ),
        (_, 1.., _) => (
            FailureKind::NoKey,
            format!(
                "{unknown} of {all} anchored datasets are not proved; load the keys with 'strongroom key load'"
            ),
        ),
        (.., 1..) => (
            FailureKind::Other,
            format!("{unknown} of {all} anchored datasets cannot be proved; they need new anchors"),
        ),
        _ => return None,
    };
    Some(Failure { kind, message })
}

fn read(file: Option<&Path>) -> Result<String> {
    let mut text = String::new();
    let (name, read) = match file {
        Some(path) => (path.display().to_string(), std::fs::read_to_string(path)),
        None => {
            let read = std::io::stdin().lock().read_to_string(&mut text);
            ("the standard input".into(), read.map(|_| text))
        }
    };
    read.map_err(|error| Failure {
        kind: FailureKind::NotFound,
        message: format!("{name} cannot be read: {error}"),
    })
}

/// The anchors in a text, one in each line that is neither empty nor a comment, as in reports of `replicate verify`.
fn anchors(text: &str) -> Result<Vec<DatasetAnchor>> {
    let usage = |message| Failure {
        kind: FailureKind::Usage,
        message,
    };
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let anchors: Vec<DatasetAnchor> = lines
        .map(|(number, line)| {
            anchor_line::read(line)
                .ok_or_else(|| usage(format!("line {number} is not an anchor, or was changed")))
        })
        .collect::<Result<_>>()?;
    if anchors.is_empty() {
        return Err(usage("the input has no anchors".into()));
    }
    Ok(anchors)
}

fn is_bad(outcome: AnchorOutcome) -> bool {
    match outcome {
        AnchorOutcome::Same | AnchorOutcome::Later | AnchorOutcome::Unknown => false,
        AnchorOutcome::RolledBack
        | AnchorOutcome::Forked
        | AnchorOutcome::Replaced
        | AnchorOutcome::Missing => true,
    }
}

fn report(rows: &[AnchorRow]) -> String {
    let columns = [
        Column::left("DATASET"),
        Column::right("ANCHORED"),
        Column::right("NOW"),
        Column::left("STATE"),
        Column::left("WHY"),
    ];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.dataset.clone(),
                row.anchored.to_string(),
                row.now.map_or("-".into(), |now| now.to_string()),
                outcome(row.outcome).into(),
                why(row),
            ]
        })
        .collect();
    table::show(&columns, &cells, false)
}

/// The reasons why nothing is proved, and what is not under the seal.
fn why(row: &AnchorRow) -> String {
    let unsealed = row.unsealed.join(", ");
    let unsealed = (!unsealed.is_empty()).then(|| format!("changed without its key: {unsealed}"));
    let doubt = row.doubt.map(|doubt| doubt.text().to_owned());
    let parts: Vec<String> = doubt.into_iter().chain(unsealed).collect();
    parts.join("; ")
}

fn outcome(outcome: AnchorOutcome) -> &'static str {
    match outcome {
        AnchorOutcome::Same => "same",
        AnchorOutcome::Later => "later",
        AnchorOutcome::RolledBack => "rolled-back",
        AnchorOutcome::Forked => "forked",
        AnchorOutcome::Replaced => "replaced",
        AnchorOutcome::Unknown => "unknown",
        AnchorOutcome::Missing => "missing",
    }
}
