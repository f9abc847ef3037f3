//! `anchor`: lines that are kept elsewhere to detect a rollback.

use std::io::Read;
use std::path::Path;

use daemon::anchor_line;
use protocol::api::{Anchor, AnchorOutcome, AnchorRow, Failure, FailureKind, command};

use crate::cmd::service::args;
use crate::outcome::{Outcome, Result};
use crate::session::{Session, answer};
use crate::show::json;
use crate::show::table::{self, Column};

pub(crate) fn run(args: args::Anchor, session: &mut Session) -> Result {
    match args.command {
        None => print(args.datasets, session),
        Some(args::AnchorCommand::Verify { file }) => verify(file.as_deref(), session),
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
    let bad = rows.iter().filter(|row| is_bad(row.outcome)).count();
    let failures = (bad > 0).then(|| Failure {
        kind: FailureKind::Damaged,
        message: format!(
            "{bad} of {} anchored datasets are rolled back, replaced or missing",
            rows.len()
        ),
    });
    Ok(Outcome {
        text,
        failures: failures.into_iter().collect(),
        ..Outcome::default()
    })
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

/// The anchors in a text, one in each line that is not empty.
fn anchors(text: &str) -> Result<Vec<Anchor>> {
    let usage = |message| Failure {
        kind: FailureKind::Usage,
        message,
    };
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let anchors: Vec<Anchor> = lines
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
    !matches!(outcome, AnchorOutcome::Same | AnchorOutcome::Later)
}

fn report(rows: &[AnchorRow]) -> String {
    let columns = [
        Column::left("DATASET"),
        Column::right("ANCHORED"),
        Column::right("NOW"),
        Column::left("STATE"),
        Column::left("VERIFIED"),
    ];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.dataset.clone(),
                row.anchored.to_string(),
                row.now.map_or("-".into(), |now| now.to_string()),
                outcome(row.outcome).into(),
                if row.is_verified { "yes" } else { "no" }.into(),
            ]
        })
        .collect();
    table::show(&columns, &cells, false)
}

fn outcome(outcome: AnchorOutcome) -> &'static str {
    match outcome {
        AnchorOutcome::Same => "same",
        AnchorOutcome::Later => "later",
        AnchorOutcome::RolledBack => "rolled-back",
        AnchorOutcome::Replaced => "replaced",
        AnchorOutcome::Missing => "missing",
    }
}
