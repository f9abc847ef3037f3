//! Ciphers: who computes them, whether they are right, and how fast. The daemon is not needed for any
//! of it.

mod bench;
mod chart;
mod measure;
mod openssl;
mod providers;
mod random;
mod report;
mod tables;

use cipher::{MechanismTest, Policy, PolicyTarget};
use console::outcome::{Outcome, Result};
use console::session::{Session, absolute, usage};
use console::show::json;
use console::show::table::{self, Column};
use daemon::crypto::{Decisions, FipsCost, passed_all};
use protocol::api::FailureKind;
use serde_json::json;

use crate::crypto::args::{Crypto, CryptoChange, StateDirArgs};

/// Carries out the command.
pub fn run(command: Crypto, session: &Session) -> Result {
    match command {
        Crypto::Providers(args) => {
            let policy = decisions(&args.place, session)?.policy()?;
            let text = providers::show(&policy, args.rate, session.json)?;
            Ok(Outcome::text(text))
        }
        Crypto::Enable(args) => enable(&args, session),
        Crypto::Disable(args) => disable(&args.change, session),
        Crypto::Selftest(args) => selftest(&args.place, session),
        Crypto::Bench(args) => bench::run(&args, session.json),
        Crypto::Random(args) => random::run(&args, session.json),
    }
}

/// The settings in a chosen directory, or those of the daemon that is addressed.
fn decisions(place: &StateDirArgs, session: &Session) -> Result<Decisions> {
    Ok(match &place.state_dir {
        Some(dir) => Decisions::new(absolute(dir)?),
        None => Decisions::of_daemon(&session.socket)?,
    })
}

/// Applies the settings to a command that computes ciphers itself. A user without a state directory has none.
pub fn begin(session: &Session) -> Result<()> {
    if let Ok(decisions) = Decisions::of_daemon(&session.socket) {
        decisions.begin()?;
    }
    Ok(())
}

fn targets(args: &CryptoChange) -> Result<Vec<PolicyTarget>> {
    let parse = |text: &String| PolicyTarget::parse(text).map_err(usage);
    args.targets.iter().map(parse).collect()
}

fn enable(args: &CryptoChange, session: &Session) -> Result {
    let decisions = decisions(&args.place, session)?;
    let mut policy = decisions.policy()?;
    let was_fips = policy.is_fips();
    targets(args)?
        .into_iter()
        .for_each(|target| policy.enable(target));
    if was_fips || !policy.is_fips() {
        decisions.write(&policy)?;
        return Ok(Outcome::done());
    }
    let before = decisions.policy()?;
    decisions.write(&policy)?;
    match decisions.begin() {
        Ok(cost) => Ok(Outcome::text(
            cost.map_or(String::new(), |cost| show_cost(&cost)),
        )),
        Err(failure) => {
            // What does not pass its tests is not switched on.
            decisions.write(&before)?;
            Err(failure)
        }
    }
}

fn show_cost(cost: &FipsCost) -> String {
    let millis = |time: std::time::Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let when = match cost.remembered {
        true => "already, this boot",
        false => "now, and not again until the next boot or another program",
    };
    format!(
        "{} approved mechanisms tested {when}: {}, and {} to identify the program\n",
        cost.tested,
        millis(cost.tests),
        millis(cost.identification)
    )
}

fn disable(args: &CryptoChange, session: &Session) -> Result {
    let decisions = decisions(&args.place, session)?;
    let mut policy = decisions.policy()?;
    for (target, text) in targets(args)?.into_iter().zip(&args.targets) {
        policy.disable(target).map_err(|orphans| {
            let names: Vec<String> = orphans.iter().map(ToString::to_string).collect();
            protocol::api::Failure {
                kind: FailureKind::Busy,
                message: format!(
                    "without {text}, no provider is left for {}; disable others one by one",
                    names.join(", ")
                ),
            }
        })?;
    }
    decisions.write(&policy)?;
    Ok(Outcome::done())
}

fn selftest(place: &StateDirArgs, session: &Session) -> Result {
    let decisions = decisions(place, session)?;
    let cost = decisions.begin()?;
    let tests = cipher::test_mechanisms(Policy::current());
    let failures = passed_all(&tests).err().into_iter().collect();
    let mut text = match session.json {
        true => show_json(&tests),
        false => show_tests(&tests),
    };
    if let (Some(cost), false) = (cost, session.json) {
        text.push_str(&show_cost(&cost));
    }
    Ok(Outcome {
        text,
        failures,
        ..Outcome::default()
    })
}

fn show_tests(tests: &[MechanismTest]) -> String {
    let columns = [
        Column::left("MECHANISM"),
        Column::left("PROVIDER"),
        Column::left("RESULT"),
        Column::right("MICROSECONDS"),
    ];
    let rows: Vec<Vec<String>> = tests
        .iter()
        .map(|test| {
            vec![
                test.mechanism.to_string(),
                test.provider.to_string(),
                if test.ok { "ok" } else { "WRONG" }.into(),
                test.took.as_micros().to_string(),
            ]
        })
        .collect();
    let passed = tests.iter().filter(|test| test.ok).count();
    let took: std::time::Duration = tests.iter().map(|test| test.took).sum();
    format!(
        "{}\n{passed} of {} are right, in {:.1} ms\n",
        table::show(&columns, &rows, false),
        tests.len(),
        took.as_secs_f64() * 1e3
    )
}

fn show_json(tests: &[MechanismTest]) -> String {
    let test = |test: &MechanismTest| {
        json!({
            "mechanism": test.mechanism.to_string(),
            "provider": test.provider.name(),
            "ok": test.ok,
            "micros": test.took.as_micros() as u64,
        })
    };
    json::show(&tests.iter().map(test).collect::<Vec<_>>())
}
