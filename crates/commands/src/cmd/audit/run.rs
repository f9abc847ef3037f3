//! `audit list` and `audit verify`.

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::table::Column;
use console::show::{json, time};
use protocol::accounts::uid_of;
use protocol::api::{AuditRow, Failure, FailureKind, command};

use super::args::{Audit, AuditListArgs, AuditVerifyArgs};
use super::export::{self, records};
use super::report::{failure, shown};

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
