//! Differences between snapshots.

use std::fmt::Write;

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::json;
use protocol::api::{DiffReport, DiffRow, command};

use crate::cmd::snapshot::args::DiffArgs;

pub(crate) fn run(args: DiffArgs, session: &mut Session) -> Result {
    let command = command::Diff {
        from: args.from.clone(),
        to: args.to.clone(),
    };
    let report = answer!(session.call(command)?, Diff)?;
    if session.json {
        return Ok(Outcome::text(json::show(&report)));
    }
    let Some(files) = &report.files else {
        return Ok(Outcome::text(counts(&report)));
    };
    let rows = files.iter().map(|file| row(file, &args));
    Ok(Outcome::text(rows.collect::<String>()))
}

/// Writes a row as `zfs diff` does.
fn row(file: &DiffRow, args: &DiffArgs) -> String {
    let mut row = String::new();
    if args.times {
        // Into a string, which takes everything.
        write!(row, "{:>10}.{:09}\t", file.time, file.nanos).expect("into memory");
    }
    row += &file.change;
    row.push('\t');
    if args.kinds {
        row += &file.kind;
        row.push('\t');
    }
    row += &file.path;
    if let Some(new_path) = &file.new_path {
        row += if args.script { "\t" } else { " -> " };
        row += new_path;
    }
    row.push('\n');
    row
}

fn counts(report: &DiffReport) -> String {
    let line =
        |what: &str, [before, after]: [u64; 2]| format!("{what:<10}{before:>10}{after:>10}\n");
    let head = format!("{:<10}{:>10}{:>10}\n", "RECORDS", "ONLY OLD", "ONLY NEW");
    let counts = [
        head,
        line("metadata", report.metadata),
        line("contents", report.contents),
    ];
    format!(
        "{}The key is not loaded, so there are no names.\n",
        counts.concat()
    )
}
