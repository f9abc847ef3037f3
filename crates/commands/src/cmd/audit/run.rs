//! `audit list` and `audit verify`.

use std::fmt::Write;

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::table::Column;
use console::show::{json, time};
use protocol::accounts::uid_of;
use protocol::api::{AuditFinding, AuditReport, AuditRow, Failure, FailureKind, command};

use super::args::{Audit, AuditListArgs, AuditVerifyArgs};
use super::export::{self, records};

pub(crate) fn run(args: Audit, session: &mut Session) -> Result {
    match args {
        Audit::List(args) => list(args, session),
        Audit::Export(args) => export::run(&args, session),
        Audit::Verify(args) => verify(args, session),
    }
}

fn list(args: AuditListArgs, session: &mut Session) -> Result {
    let pools = match args.pool {
        Some(pool) => vec![pool],
        None => {
            let pools = answer!(session.call(command::PoolStatus::default())?, Pools)?;
            pools.into_iter().map(|pool| pool.name).collect()
        }
    };
    let uid = args.user.as_deref().map(|user| {
        let unknown = || Failure::new(FailureKind::NotFound, format!("there is no user '{user}'"));
        uid_of(user).ok_or_else(unknown)
    });
    let uid = uid.transpose()?;
    let since = args.since.map_or(0, |since| since.0);
    let mut rows = Vec::new();
    for pool in pools {
        rows.extend(records(&pool, 0, session)?);
    }
    rows.retain(|row| row.time >= since && (uid.is_none() || row.uid == uid));
    let mut heads = ["POOL", "RECORD", "TIME", "USER", "COMMAND"].map(Column::left);
    heads[1] = Column::right("RECORD");
    let cells = |row: AuditRow| {
        let number = row.sequence.map_or("-".into(), |number| number.to_string());
        let part = if row.internal { ". " } else { "" };
        let command = format!("{part}{}", row.command);
        vec![row.pool, number, time::history(row.time), row.who, command]
    };
    let is_script = args.script;
    Ok(Outcome::rows(rows, session.json, &heads, is_script, cells))
}

fn verify(args: AuditVerifyArgs, session: &mut Session) -> Result {
    let check = command::AuditVerify {
        pool: args.pool,
        anchor: args.anchor,
    };
    let report = answer!(session.call(check)?, AuditReport)?;
    Ok(Outcome {
        text: match session.json {
            true => json::show(&report),
            false => shown(&report),
        },
        failures: failure(&report).into_iter().collect(),
        ..Outcome::default()
    })
}

fn shown(report: &AuditReport) -> String {
    let mut out = format!("{}: {} records with a hash", report.pool, report.records);
    for (count, what) in [
        (report.unchained, "without one, of an earlier version"),
        (report.dropped, "dropped because of their age"),
    ] {
        if count > 0 {
            let _ = write!(out, ", {count} {what}");
        }
    }
    out += "\n";
    if let Some(newest) = &report.newest {
        let _ = writeln!(out, "newest record: {newest}");
    }
    let finding = match report.finding {
        Some(AuditFinding::Proved) => {
            "the anchor is proved: its record and all before it are there"
        }
        Some(AuditFinding::Dropped) => "the record of the anchor was dropped: nothing is proved",
        Some(AuditFinding::Cut) => "the log ends before the record of the anchor",
        Some(AuditFinding::Changed) => "another record is in the place of the anchor",
        None => return out,
    };
    out + finding + "\n"
}

fn failure(report: &AuditReport) -> Option<Failure> {
    let pool = &report.pool;
    let of = |kind, message: String| Some(Failure::new(kind, message));
    if let Some(fault) = &report.fault {
        let message = format!("the log of '{pool}' contradicts itself: {fault}");
        return of(FailureKind::Damaged, message);
    }
    match report.finding {
        None | Some(AuditFinding::Proved) => None,
        Some(AuditFinding::Dropped) => of(
            FailureKind::Other,
            format!("the log of '{pool}' proves nothing about this record; keep a newer one"),
        ),
        Some(AuditFinding::Cut) => of(
            FailureKind::Damaged,
            format!(
                "the log of '{pool}' was cut off, or the pool went back to a checkpoint or an older copy of its devices"
            ),
        ),
        Some(AuditFinding::Changed) => of(
            FailureKind::Damaged,
            format!(
                "the log of '{pool}' was changed, the pool went back to an earlier state, or the anchor is of another pool"
            ),
        ),
    }
}
