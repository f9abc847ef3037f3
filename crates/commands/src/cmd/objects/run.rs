//! `objects probe`: the guarantees of a store as a table.

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::json;
use console::show::table::{self, Column};
use protocol::api::{Failure, FailureKind, StoreProbeReport, command};

use super::args::Objects;

pub(crate) fn run(args: Objects, session: &mut Session) -> Result {
    let Objects::Probe(args) = args;
    let probe = command::ObjectsProbe {
        address: args.address,
    };
    let report = answer!(session.call(probe)?, StoreProbe)?;
    let shown = match session.json {
        true => json::show(&report),
        false => shown(&report),
    };
    let mut outcome = match report.safe {
        true => Outcome::done(),
        false => Outcome::failed(Failure::new(
            FailureKind::Device,
            format!("{}: a pool cannot rely on this store", report.store),
        )),
    };
    outcome.text = shown;
    Ok(outcome)
}

fn shown(report: &StoreProbeReport) -> String {
    let columns = [
        Column::left("GUARANTEE"),
        Column::left("HOLDS"),
        Column::left("WITHOUT IT"),
    ];
    let rows = report.checks.iter().map(|check| {
        let holds = if check.holds { "yes" } else { "no" };
        let more = match &check.how {
            Some(how) => format!("{}: {how}", check.consequence),
            None => check.consequence.clone(),
        };
        vec![check.guarantee.clone(), holds.into(), more]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut text = table::show(&columns, &rows, false);
    text += &format!(
        "{}: {} requests, {} MiB\n",
        report.store,
        report.requests,
        report.bytes.div_ceil(1 << 20)
    );
    for object in &report.leftovers {
        text += &format!("the object '{object}' could not be removed\n");
    }
    text
}
