//! `pool get` and `pool set`: what a pool has, and the settings that are stored with its root dataset.

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, usage};
use console::show::json;
use protocol::api::{
    DatasetRow, Failure, FailureKind, PoolReport, PropertyRow, PropertyValue, ValueSource, command,
};
use protocol::property::{is_of_pools, of_pools};

use crate::cmd::dataset::run::get::{report, wanted};
use crate::cmd::pool::args::{PoolGet, PoolSet};

/// Properties that are counted or fixed, in the order of `zpool get all`.
const COUNTED: [&str; 11] = [
    "size",
    "capacity",
    "altroot",
    "health",
    "guid",
    "dedupratio",
    "free",
    "allocated",
    "readonly",
    "checkpoint",
    "expandsize",
];

pub(super) fn get(args: PoolGet, session: &mut Session) -> Result {
    let names = wanted(&args.props)?;
    for name in &names {
        if !is_of_pools(name) && !COUNTED.contains(&full(name)) {
            let message = format!(
                "pools have no property '{name}'; 'strongroom get' shows those of datasets"
            );
            return Err(Failure::new(FailureKind::NotFound, message));
        }
    }
    let has = |name: &str| names.is_empty() || names.iter().any(|wanted| full(wanted) == name);
    let command = command::PoolStatus {
        pools: args.pools,
        names_files: false,
    };
    let pools = answer!(session.call(command)?, Pools)?;
    let mut rows = Vec::new();
    for pool in &pools {
        let counted = COUNTED.into_iter().filter(|name| has(name));
        let mut props: Vec<PropertyRow> = counted.map(|name| row(pool, name)).collect();
        let wanted: Vec<String> = of_pools()
            .filter(|name| has(name))
            .map(Into::into)
            .collect();
        if !wanted.is_empty() {
            props.extend(settings(pool, wanted, session)?);
        }
        rows.push(DatasetRow {
            name: pool.name.clone(),
            kind: "pool".into(),
            props,
        });
    }
    if session.json {
        return Ok(Outcome::text(json::datasets(&rows)));
    }
    if rows.is_empty() && !args.table.script {
        return Ok(Outcome::text("no pools available\n"));
    }
    let (script, exact) = (args.table.script, args.table.parsable);
    Ok(Outcome::text(report(&rows, &args.fields, script, exact)))
}

/// A name, if it was given as the column of `pool list`.
fn full(name: &str) -> &str {
    match name {
        "alloc" => "allocated",
        "cap" => "capacity",
        "ckpoint" => "checkpoint",
        "expandsz" => "expandsize",
        "dedup" => "dedupratio",
        name => name,
    }
}

fn row(pool: &PoolReport, name: &str) -> PropertyRow {
    let is_known =
        pool.health != UNAVAILABLE || ["health", "guid", "readonly", "altroot"].contains(&name);
    PropertyRow {
        property: name.into(),
        value: match is_known {
            true => value(pool, name),
            false => PropertyValue::None,
        },
        source: ValueSource::None,
    }
}

/// A pool that is remembered, and is not imported.
const UNAVAILABLE: &str = "UNAVAIL";

fn value(pool: &PoolReport, name: &str) -> PropertyValue {
    match name {
        "size" => PropertyValue::Bytes(pool.size),
        "capacity" => {
            let percent = u128::from(pool.allocated) * 100 / u128::from(pool.size.max(1));
            PropertyValue::Percent(percent as u64)
        }
        "health" => PropertyValue::Text(pool.health.clone()),
        "altroot" => pool
            .altroot
            .clone()
            .map_or(PropertyValue::None, PropertyValue::Text),
        "guid" => PropertyValue::Number(pool.guid),
        "dedupratio" => PropertyValue::Ratio((pool.dedupratio * 100.0) as u64),
        "free" => PropertyValue::Bytes(pool.free),
        "allocated" => PropertyValue::Bytes(pool.allocated),
        "readonly" => PropertyValue::Text(if pool.read_only { "on" } else { "off" }.into()),
        "checkpoint" => {
            let kept = pool.checkpoint.as_ref();
            kept.map_or(PropertyValue::None, |kept| PropertyValue::Bytes(kept.bytes))
        }
        "expandsize" => PropertyValue::Bytes(pool.expandable),
        _ => PropertyValue::None,
    }
}

/// The properties that are stored with the root dataset.
fn settings(
    pool: &PoolReport,
    wanted: Vec<String>,
    session: &mut Session,
) -> Result<Vec<PropertyRow>> {
    if pool.health == UNAVAILABLE {
        return Ok(Vec::new());
    }
    let command = command::Get {
        names: vec![pool.name.clone()],
        depth: Some(0),
        props: wanted,
        ..command::Get::default()
    };
    let rows = answer!(session.call(command)?, Datasets)?;
    Ok(rows.into_iter().flat_map(|row| row.props).collect())
}

pub(super) fn set(args: PoolSet, session: &mut Session) -> Result {
    let (name, _) = &args.prop;
    if !is_of_pools(name) {
        if COUNTED.contains(&full(name)) {
            return Err(usage(format!(
                "'{name}' of a pool is counted or fixed; it cannot be set"
            )));
        }
        let message =
            format!("pools have no property '{name}'; 'strongroom set' sets those of datasets");
        return Err(Failure::new(FailureKind::NotFound, message));
    }
    if args.pool.contains(['/', '@']) {
        return Err(usage(format!("'{}' is not the name of a pool", args.pool)));
    }
    let command = command::Set {
        names: vec![args.pool],
        props: vec![args.prop],
        force: false,
    };
    call_quiet(session, command)
}
