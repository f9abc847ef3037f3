//! `list`: a table of datasets.

use std::cmp::Ordering;

use console::outcome::{Outcome, Result};
use console::session::{Session, usage};
use console::show::properties::{canonical, column};
use console::show::table::{self, Column};
use console::show::{json, value};
use protocol::api::{DatasetRow, PropertyValue};

use super::select::Selection;
use crate::cmd::dataset::args::{DatasetType, List};

/// The columns of `-o space`.
const SPACE: [&str; 7] = [
    "name",
    "available",
    "used",
    "usedbysnapshots",
    "usedbydataset",
    "usedbyrefreservation",
    "usedbychildren",
];

pub(crate) fn run(args: List, session: &mut Session) -> Result {
    let columns = columns(&args.columns)?;
    let ascending = args.ascending.iter().map(|name| (canonical(name), false));
    let descending = args.descending.iter().map(|name| (canonical(name), true));
    let order: Vec<(&str, bool)> = ascending.chain(descending).collect();

    let mut props: Vec<String> = Vec::new();
    for name in columns
        .iter()
        .map(String::as_str)
        .chain(order.iter().map(|key| key.0))
    {
        if !is_of_row(name) && !props.iter().any(|known| known == name) {
            props.push(name.into());
        }
    }
    if props.is_empty() {
        // None would mean all; this one is cheap.
        props.push("guid".into());
    }

    let selection = Selection::new(
        args.names,
        args.recursive,
        args.depth,
        &args.types,
        DatasetType::Filesystem,
    );
    let mut rows = selection.fetch(session, props)?;
    if !order.is_empty() {
        rows.sort_by(|a, b| compare(a, b, &order));
    }
    if session.json {
        for row in &mut rows {
            row.props.retain(|prop| columns.contains(&prop.property));
        }
        return Ok(Outcome::text(json::datasets(&rows)));
    }
    if rows.is_empty() && !args.table.script {
        return Ok(Outcome::text("no datasets available\n"));
    }
    Ok(Outcome::text(report(
        &columns,
        &rows,
        args.table.script,
        args.table.parsable,
    )))
}

/// The columns that `-o` names, in full.
fn columns(given: &[String]) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    for name in given {
        match canonical(name) {
            "" => return Err(usage("a column name is empty")),
            "space" => columns.extend(SPACE.map(String::from)),
            name => columns.push(name.to_string()),
        }
    }
    Ok(columns)
}

/// The columns of every row.
fn is_of_row(name: &str) -> bool {
    name == "name" || name == "type"
}

fn lookup(row: &DatasetRow, name: &str) -> PropertyValue {
    match name {
        "name" => PropertyValue::Text(row.name.clone()),
        "type" => PropertyValue::Text(row.kind.clone()),
        _ => {
            let prop = row.props.iter().find(|prop| prop.property == name);
            prop.map_or(PropertyValue::None, |prop| prop.value.clone())
        }
    }
}

fn report(columns: &[String], rows: &[DatasetRow], script: bool, exact: bool) -> String {
    let heads: Vec<Column> = columns.iter().map(|name| column(name)).collect();
    let cells = |row: &DatasetRow| -> Vec<String> {
        let values = columns.iter().map(|name| lookup(row, name));
        values.map(|found| value::show(&found, exact)).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::show(&heads, &rows, script)
}

/// By the properties in `order`, each with whether the largest comes first, then by name. What does not
/// apply comes last.
fn compare(a: &DatasetRow, b: &DatasetRow, order: &[(&str, bool)]) -> Ordering {
    for (name, descending) in order {
        let ordering = match (lookup(a, name), lookup(b, name)) {
            (PropertyValue::None, PropertyValue::None) => Ordering::Equal,
            (PropertyValue::None, _) => Ordering::Greater,
            (_, PropertyValue::None) => Ordering::Less,
            (a, b) if *descending => compare_values(&b, &a),
            (a, b) => compare_values(&a, &b),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    a.name.cmp(&b.name)
}

fn compare_values(a: &PropertyValue, b: &PropertyValue) -> Ordering {
    let number = |value: &PropertyValue| match value {
        PropertyValue::Bytes(n)
        | PropertyValue::Number(n)
        | PropertyValue::Ratio(n)
        | PropertyValue::Percent(n)
        | PropertyValue::Time(n) => Some(*n),
        PropertyValue::None | PropertyValue::Text(_) => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => value::show(a, true).cmp(&value::show(b, true)),
    }
}

#[cfg(test)]
mod tests {
    use protocol::api::{PropertyRow, ValueSource};

    use super::*;

    fn row(name: &str, used: Option<u64>, mountpoint: &str) -> DatasetRow {
        let prop = |property: &str, value| PropertyRow {
            property: property.into(),
            value,
            source: ValueSource::None,
        };
        DatasetRow {
            name: name.into(),
            kind: "filesystem".into(),
            props: vec![
                prop(
                    "used",
                    used.map_or(PropertyValue::None, PropertyValue::Bytes),
                ),
                prop("mountpoint", PropertyValue::Text(mountpoint.into())),
            ],
        }
    }

    fn rows() -> Vec<DatasetRow> {
        vec![
            row("tank", Some(5000), "/tank"),
            row("tank/a", Some(20), "none"),
            row("tank/b", None, "/b"),
            row("tank/c", Some(20), "/c"),
        ]
    }

    fn sorted(order: &[(&str, bool)]) -> Vec<String> {
        let mut rows = rows();
        rows.sort_by(|a, b| compare(a, b, order));
        rows.into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn sorts_by_value() {
        assert_eq!(
            sorted(&[("used", false)]),
            ["tank/a", "tank/c", "tank", "tank/b"]
        );
        assert_eq!(
            sorted(&[("used", true)]),
            ["tank", "tank/a", "tank/c", "tank/b"]
        );
        assert_eq!(
            sorted(&[("used", false), ("mountpoint", false)]),
            ["tank/c", "tank/a", "tank", "tank/b"]
        );
        assert_eq!(sorted(&[("name", true)])[0], "tank/c");
    }

    #[test]
    fn columns_are_selected() {
        let names = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            columns(&given)
        };
        assert_eq!(names(&["name", "avail"]).unwrap(), ["name", "available"]);
        assert_eq!(
            names(&["space", "type"]).unwrap()[6..],
            ["usedbychildren", "type"]
        );
        assert!(names(&[""]).is_err());
        let columns = names(&["name", "used", "mountpoint"]).unwrap();
        assert_eq!(
            report(&columns, &rows(), false, false),
            "\
NAME     USED  MOUNTPOINT
tank    4.88K  /tank
tank/a    20B  none
tank/b      -  /b
tank/c    20B  /c
"
        );
        let script = report(&names(&["type", "used"]).unwrap(), &rows()[..1], true, true);
        assert_eq!(script, "filesystem\t5000\n");
    }
}
