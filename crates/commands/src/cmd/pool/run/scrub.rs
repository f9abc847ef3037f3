//! `pool scrub`, and waiting for its end.

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, other};
use console::show::json;
use protocol::api::{Failure, FailureKind, PoolReport, ScrubRow, command};

use crate::cmd::pool::args::{Activity, PoolScrubArgs};
use crate::cmd::pool::run::wait::until_ended;

/// All of them, even if some fail.
pub(super) fn run(args: PoolScrubArgs, session: &mut Session) -> Result {
    let mut outcome = Outcome::done();
    let mut begun = Vec::new();
    if args.dry_run {
        return estimates(args.pools, session);
    }
    for pool in args.pools {
        let begin = command::PoolScrub {
            pool: pool.clone(),
            stop: args.stop,
            pause: args.pause,
            dry_run: false,
        };
        match call_quiet(session, begin) {
            Ok(_) => begun.push(pool),
            // It runs already, and that one is as good.
            Err(failure) if args.wait && failure.kind == FailureKind::Busy => begun.push(pool),
            Err(failure) => outcome.failures.push(failure),
        }
    }
    if !args.wait {
        return Ok(outcome);
    }
    let mut scrubs = Vec::new();
    for pool in begun {
        let report = until_ended(&pool, Activity::Scrub, session)?;
        outcome.failures.extend(failure(&report));
        scrubs.push(report.scrub);
    }
    if session.json {
        outcome.text = match scrubs.as_slice() {
            [scrub] => json::show(scrub),
            _ => json::show(&scrubs),
        };
    }
    Ok(outcome)
}

/// The amounts that scrubs would read.
fn estimates(pools: Vec<String>, session: &mut Session) -> Result {
    let mut outcome = Outcome::done();
    let mut estimates = Vec::new();
    for pool in pools {
        let ask = command::PoolScrub {
            pool,
            stop: false,
            pause: false,
            dry_run: true,
        };
        match session
            .call(ask)
            .and_then(|reply| answer!(reply, ScrubEstimate))
        {
            Ok(estimate) => estimates.push(estimate),
            Err(failure) => outcome.failures.push(failure),
        }
    }
    outcome.text = match (session.json, estimates.as_slice()) {
        (true, [estimate]) => json::show(estimate),
        (true, all) => json::show(&all),
        (false, all) => all.iter().map(|estimate| format!("{estimate}\n")).collect(),
    };
    Ok(outcome)
}

/// The errors of the scrub, if there were any.
fn failure(report: &PoolReport) -> Option<Failure> {
    let ScrubRow {
        state,
        errors,
        unreadable,
        ..
    } = &report.scrub;
    let name = &report.name;
    if *errors > 0 && errors == unreadable {
        return Some(Failure {
            kind: FailureKind::Damaged,
            message: format!(
                "the scrub of '{name}' found {errors} records that a device fails to read: \
                 strongroom pool status -v {name}"
            ),
        });
    }
    if *errors > 0 {
        return Some(Failure {
            kind: FailureKind::Damaged,
            message: format!(
                "the scrub of '{name}' found {errors} errors that could not be repaired: \
                 strongroom pool status -v {name}"
            ),
        });
    }
    let was = ["stopped", "paused"].into_iter().find(|was| state == was);
    was.map(|was| other(format!("the scrub of '{name}' was {was}")))
}
