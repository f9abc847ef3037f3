//! `pool upgrade`: which formats and features pools have, and which this program knows.

use std::fmt::Write;

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::table::{self, Column};
use console::show::{json, text};
use daemon::{FORMAT_VERSION, known_features};
use protocol::api::{FeatureReport, FeatureRow, command};
use serde_json::json;

use crate::cmd::pool::args::PoolUpgrade;

/// The versions of this program that brought the formats, from the first on.
const FORMATS: [&str; FORMAT_VERSION as usize] = ["0.1.0"];

pub(super) fn run(args: PoolUpgrade, session: &mut Session) -> Result {
    if args.verbose {
        return Ok(Outcome::text(match session.json {
            true => known_as_json(),
            false => known(),
        }));
    }
    let is_list = args.pools.is_empty() && !args.all;
    let command = command::PoolFeatures { pools: args.pools };
    let pools = answer!(session.call(command)?, Features)?;
    Ok(Outcome::text(match (session.json, is_list) {
        (true, _) => json::show(&pools),
        (false, _) if pools.is_empty() => "no pools available\n".into(),
        (false, true) => listed(&pools),
        (false, false) => {
            let pools: Vec<String> = pools.iter().map(upgraded).collect();
            pools.join("\n")
        }
    }))
}

fn known() -> String {
    let formats = FORMATS.iter().zip(1..);
    let formats: Vec<Vec<String>> = formats
        .map(|(since, format)| vec![format.to_string(), (*since).into()])
        .collect();
    let columns = [Column::left("FORMAT"), Column::left("SINCE")];
    let formats = table::show(&columns, &formats, false);
    let row = |feature: FeatureRow| vec![feature.name, feature.since, feature.what, feature.begins];
    let features: Vec<Vec<String>> = known_features().into_iter().map(row).collect();
    let columns = ["FEATURE", "SINCE", "WHAT A POOL MAY HOLD", "SWITCHED ON BY"];
    let features = table::show(&columns.map(Column::left), &features, false);
    format!("{formats}\n{features}")
}

fn known_as_json() -> String {
    let formats = FORMATS.iter().zip(1..);
    let formats = formats.map(|(since, format)| json!({"format": format, "since": since}));
    let mut features = json!(known_features());
    for feature in features.as_array_mut().into_iter().flatten() {
        // That is for a pool to say.
        feature
            .as_object_mut()
            .map(|members| members.remove("active"));
    }
    json::show(&json!({"formats": formats.collect::<Vec<_>>(), "features": features}))
}

fn listed(pools: &[FeatureReport]) -> String {
    let columns = ["NAME", "FORMAT", "NEEDS", "HAS", "DOES NOT USE"].map(Column::left);
    let row = |pool: &FeatureReport| {
        vec![
            pool.name.clone(),
            pool.format.to_string(),
            needs(pool).into(),
            names(pool, true),
            names(pool, false),
        ]
    };
    let rows: Vec<Vec<String>> = pools.iter().map(row).collect();
    table::show(&columns, &rows, false)
}

fn names(pool: &FeatureReport, active: bool) -> String {
    let features = pool.features.iter().filter(|f| f.active == active);
    let names: Vec<&str> = features.map(|feature| feature.name.as_str()).collect();
    match names.is_empty() {
        true => "-".into(),
        false => names.join(","),
    }
}

/// The first version of this program that can import a pool.
fn needs(pool: &FeatureReport) -> &str {
    let active = pool.features.iter().filter(|feature| feature.active);
    let since = active.map(|feature| feature.since.as_str());
    let format = (pool.format as usize).checked_sub(1);
    let format = format.and_then(|at| FORMATS.get(at)).copied();
    let numbers = |version: &&str| -> Vec<u64> {
        let numbers = version.split('.');
        numbers.filter_map(|number| number.parse().ok()).collect()
    };
    since.chain(format).max_by_key(numbers).unwrap_or("-")
}

fn upgraded(pool: &FeatureReport) -> String {
    let mut out = String::new();
    let (name, format) = (text::in_a_cell(&pool.name), pool.format);
    let _ = writeln!(
        out,
        "Pool '{name}' has format {format}, the newest. There is nothing to upgrade: features are\n\
         switched on by their first use. It can be imported by version {} of this program and later.\n",
        needs(pool)
    );
    let row = |feature: &FeatureRow| {
        let state = if feature.active {
            "active"
        } else {
            "not in use"
        };
        vec![
            feature.name.clone(),
            state.into(),
            feature.since.clone(),
            feature.begins.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = pool.features.iter().map(row).collect();
    let columns = ["FEATURE", "STATE", "SINCE", "SWITCHED ON BY"].map(Column::left);
    out + &table::show(&columns, &rows, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_needs_the_newest_of_what_it_has() {
        let feature = |since: &str, active| FeatureRow {
            name: since.into(),
            active,
            since: since.into(),
            what: String::new(),
            begins: String::new(),
        };
        let mut pool = FeatureReport {
            name: "tank".into(),
            format: 1,
            features: vec![feature("0.10.0", true), feature("0.9.0", true)],
        };
        assert_eq!(needs(&pool), "0.10.0");
        pool.features[0].active = false;
        assert_eq!(needs(&pool), "0.9.0");
        pool.features[1].active = false;
        assert_eq!(needs(&pool), "0.1.0");
    }
}
