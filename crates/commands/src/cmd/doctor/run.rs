//! Prints the checks.

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::json;
use console::show::table::{self, Column};
use protocol::api::{Command, DaemonReport, Failure, FailureKind, PoolReport, command};

use super::args::Doctor;
use super::checks::{self, MachineCheck, State};
use super::machine::Machine;
use crate::cmd::pool::run::is_healthy;

pub(crate) fn run(args: &Doctor, session: &mut Session) -> Result {
    let mut found = checks::all(&Machine::this());
    found.extend(daemon(session));
    if args.exceptions {
        found.retain(|check| check.state != State::Ok);
    }
    let problems = found
        .iter()
        .filter(|check| check.state == State::Problem)
        .count();
    let failure = (problems > 0).then(|| Failure {
        kind: FailureKind::Other,
        message: format!("{problems} of the checks found a problem"),
    });
    Ok(Outcome {
        text: match session.json {
            true => json::show(&found),
            false => show(&found),
        },
        failures: failure.into_iter().collect(),
        ..Outcome::default()
    })
}

/// A table, and below it what to do.
fn show(found: &[MachineCheck]) -> String {
    if found.is_empty() {
        return "everything is ok\n".into();
    }
    let columns = ["CHECK", "STATE", "FOUND"].map(Column::left);
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|check| {
            vec![
                check.check.into(),
                check.state.name().into(),
                check.found.clone(),
            ]
        })
        .collect();
    let advice = found.iter().filter_map(|check| {
        let advice = check.advice.as_ref()?;
        Some(format!("\n{}: {advice}\n", check.check))
    });
    table::show(&columns, &rows, false) + &advice.collect::<String>()
}

/// The daemon of this user, if it runs, and its pools.
fn daemon(session: &mut Session) -> Vec<MachineCheck> {
    const NAME: &str = "daemon";
    let report = match session.call_running(Command::DaemonStatus) {
        Ok(reply) => answer!(reply, Daemon),
        Err(failure) if failure.kind == FailureKind::NoDaemon => {
            return vec![MachineCheck::ok(NAME, "not running; a command starts it")];
        }
        Err(failure) => Err(failure),
    };
    match report {
        Ok(report) => vec![version(&report), pools(session)],
        Err(failure) => vec![MachineCheck::problem(
            NAME,
            failure.message,
            "see 'strongroom daemon status'",
        )],
    }
}

fn version(report: &DaemonReport) -> MachineCheck {
    const NAME: &str = "daemon";
    let this = env!("CARGO_PKG_VERSION");
    match report.version == this {
        true => MachineCheck::ok(NAME, format!("runs, version {this}")),
        false => MachineCheck::warning(
            NAME,
            format!("runs as version {}, this program is {this}", report.version),
            "start the daemon again: 'strongroom daemon stop', or restart its service",
        ),
    }
}

fn pools(session: &mut Session) -> MachineCheck {
    const NAME: &str = "pools";
    const ADVICE: &str = "see 'strongroom pool status -x'";
    let every = command::PoolStatus::default();
    let pools = session.call_running(every);
    match pools.and_then(|reply| answer!(reply, Pools)) {
        Ok(pools) => {
            let unwell: Vec<&str> = pools
                .iter()
                .filter(|pool| !is_healthy(pool))
                .map(|pool: &PoolReport| pool.name.as_str())
                .collect();
            match unwell.is_empty() {
                true => {
                    MachineCheck::ok(NAME, format!("{} imported, none has errors", pools.len()))
                }
                false => MachineCheck::warning(
                    NAME,
                    format!("not healthy: {}", unwell.join(", ")),
                    ADVICE,
                ),
            }
        }
        Err(failure) => MachineCheck::warning(NAME, failure.message, ADVICE),
    }
}
