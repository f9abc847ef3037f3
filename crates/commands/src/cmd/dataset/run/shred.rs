//! `destroy --shred`: what was done, and what stays readable to whom.

use std::fmt::Write;

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::text::in_a_cell;
use console::show::{json, size};
use protocol::api::{ShredReport, Survivor, command};

use crate::cmd::dataset::args::DestroyArgs;
use crate::cmd::sure::may_destroy;

/// A warning about what no program can know.
const UNKNOWN: &str = "\
Cannot be known from here:
  copies of the devices from before (backups, snapshots of what is below them, devices that left the
  pool, flash that keeps what is overwritten): readable with the key of their time
  copies of keyrings (key backup), and what was sent to other pools: readable with their keys
  names, properties and the history of the pool stay where they are, and are not secret
";

pub(super) fn run(args: &DestroyArgs, session: &mut Session) -> Result {
    let mut ask = |dry_run| {
        let command = command::Shred {
            name: args.name.clone(),
            recursive: args.recursive,
            clones: args.clones,
            force: args.force,
            dry_run,
        };
        answer!(session.call(command)?, Shredded)
    };
    let report = match args.dry_run {
        true => ask(true)?,
        false => {
            may_destroy(args, || ask(true).map(|would| would.destroyed))?;
            ask(false)?
        }
    };
    Ok(Outcome::text(match session.json {
        true => json::show(&report),
        false => text(&report, args.dry_run),
    }))
}

fn text(report: &ShredReport, dry_run: bool) -> String {
    let mut out = String::new();
    let what = if dry_run {
        "would destroy"
    } else {
        "destroyed"
    };
    for name in &report.destroyed {
        let _ = writeln!(out, "{what} {}", in_a_cell(name));
    }
    if !dry_run {
        done(report, &mut out);
    }
    if !report.survivors.is_empty() {
        out.push_str("Stays readable:\n");
        report.survivors.iter().for_each(|s| survivor(s, &mut out));
    }
    out.push_str(UNKNOWN);
    out
}

fn done(report: &ShredReport, out: &mut String) {
    let _ = writeln!(
        out,
        "wrapped by a random key that is forgotten: {} of {} keyrings",
        report.rewrapped,
        report.rewrapped + report.not_rewrapped.len()
    );
    for name in &report.not_rewrapped {
        let _ = writeln!(
            out,
            "  not that of {}, whose key was not loaded; it was overwritten",
            in_a_cell(name)
        );
    }
    let _ = writeln!(
        out,
        "overwritten, and read back as zeros: {} key blocks, twice on each device, {} in all",
        report.key_blocks, report.devices
    );
}

fn survivor(survivor: &Survivor, out: &mut String) {
    let numbers: Vec<String> = survivor.generations.iter().map(u32::to_string).collect();
    let _ = writeln!(
        out,
        "  with the key of {}: what {} wrote with generation {} of its keys, {} records of {} by the end",
        in_a_cell(&survivor.kept_by),
        in_a_cell(&survivor.dataset),
        numbers.join(", "),
        survivor.records,
        size::human(survivor.bytes)
    );
}
