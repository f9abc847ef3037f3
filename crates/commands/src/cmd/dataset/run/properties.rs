//! Prints the reference of properties.

use console::outcome::{Outcome, Result};
use console::show::table::{self, Column};
use console::show::{json, properties};
use protocol::api::{Failure, FailureKind};
use protocol::property::{PROPERTIES, Property, PropertyFacts};

use crate::cmd::dataset::args::Properties;

pub(crate) fn run(args: &Properties, is_json: bool) -> Result {
    let named: Vec<&Property> = match args.names.is_empty() {
        true => PROPERTIES.iter().collect(),
        false => args
            .names
            .iter()
            .map(|name| find(name))
            .collect::<Result<_>>()?,
    };
    if is_json {
        let rows: Vec<_> = named.into_iter().map(PropertyFacts::of).collect();
        return Ok(Outcome::text(json::show(&rows)));
    }
    if args.names.is_empty() {
        return Ok(Outcome::text(in_a_table(&named)));
    }
    let pages: Vec<String> = named.into_iter().map(properties::page).collect();
    Ok(Outcome::text(pages.join("\n\n") + "\n"))
}

fn find(name: &str) -> Result<&'static Property> {
    Property::find(name).ok_or_else(|| Failure {
        kind: FailureKind::NotFound,
        message: Property::unknown(name),
    })
}

fn in_a_table(named: &[&Property]) -> String {
    let columns = [
        "PROPERTY",
        "DEFAULT",
        "INHERITED",
        "SET",
        "TENANT",
        "SINCE",
        "HELP",
    ]
    .map(Column::left);
    let row = |property: &&Property| {
        let known = PropertyFacts::of(property);
        let inherits = if known.inherits { "yes" } else { "no" };
        let cells = [
            known.name,
            known.default,
            inherits,
            known.set,
            known.tenant,
            known.since,
            known.help,
        ];
        cells.map(str::to_owned).to_vec()
    };
    table::show(&columns, &named.iter().map(row).collect::<Vec<_>>(), false)
}
