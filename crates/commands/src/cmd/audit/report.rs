//! The report of `audit verify`.

use std::fmt::Write;

use protocol::api::{AuditFinding, AuditReport, Failure, FailureKind};

pub(super) fn shown(report: &AuditReport) -> String {
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
        Some(AuditFinding::Proved) if report.dropped > 0 => {
            "the anchor is proved: its record and all before it are there, except those dropped because of their age"
        }
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

pub(super) fn failure(report: &AuditReport) -> Option<Failure> {
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
