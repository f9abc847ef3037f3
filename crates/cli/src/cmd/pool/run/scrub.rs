//! `pool scrub`, and waiting for its end.

use std::io::IsTerminal;
use std::time::Duration;

use protocol::api::{Failure, FailureKind, PoolReport, ScrubRow, command};

use crate::cmd::pool::args::PoolScrub;
use crate::outcome::{Outcome, Result, call_quiet};
use crate::session::{Session, answer, other};
use crate::show::json;

const POLL: Duration = Duration::from_millis(250);

pub(super) fn run(args: PoolScrub, session: &mut Session) -> Result {
    let begin = command::PoolScrub {
        pool: args.pool.clone(),
        stop: args.stop,
    };
    let begun = call_quiet(session, begin);
    if !args.wait {
        return begun;
    }
    match begun {
        // It runs already, and that one is as good.
        Err(failure) if failure.kind == FailureKind::Busy => {}
        begun => drop(begun?),
    }
    let report = wait(&args.pool, session)?;
    let text = match session.json {
        true => json::show(&report.scrub),
        false => String::new(),
    };
    let failures = failure(&report).into_iter().collect();
    Ok(Outcome {
        text,
        failures,
        ..Outcome::default()
    })
}

/// Polls until no scrub runs.
fn wait(pool: &str, session: &mut Session) -> Result<PoolReport> {
    let mut bar = None;
    loop {
        let command = command::PoolStatus {
            pools: vec![pool.into()],
        };
        let reports = answer!(session.call_running(command)?, Pools)?;
        let Some(report) = reports.into_iter().next() else {
            return Err(other(format!("pool '{pool}' went away")));
        };
        if report.scrub.state != "running" {
            return Ok(report);
        }
        if std::io::stderr().is_terminal() {
            let bar = bar.get_or_insert_with(|| crate::terminal::bar("scrub"));
            bar.set_length(report.scrub.total);
            bar.set_position(report.scrub.examined);
        }
        std::thread::sleep(POLL);
    }
}

/// What was wrong, if something was.
fn failure(report: &PoolReport) -> Option<Failure> {
    let ScrubRow { state, errors, .. } = &report.scrub;
    let name = &report.name;
    if *errors > 0 {
        return Some(Failure {
            kind: FailureKind::Damaged,
            message: format!(
                "the scrub of '{name}' found {errors} errors that could not be repaired: \
                 strongroom pool status -v {name}"
            ),
        });
    }
    (state == "stopped").then(|| other(format!("the scrub of '{name}' was stopped")))
}
