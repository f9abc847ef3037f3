//! `get`: properties with their sources, one to a line.

use console::outcome::{Outcome, Result};
use console::session::{Session, usage};
use console::show::properties::canonical;
use console::show::table::{self, Column};
use console::show::{json, value};
use protocol::api::{DatasetRow, PropertyRow, ValueSource};

use super::select::Selection;
use crate::cmd::dataset::args::{DatasetType, Get, GetField, SourceKind};

pub(crate) fn run(args: Get, session: &mut Session) -> Result {
    let props = wanted(&args.props)?;
    let selection = Selection::new(
        args.names,
        args.recursive,
        args.depth,
        &args.types,
        DatasetType::All,
    );
    let mut rows = selection.fetch(session, props)?;
    for row in &mut rows {
        row.props
            .retain(|prop| is_from(&prop.source, &args.sources));
    }
    if session.json {
        return Ok(Outcome::text(json::datasets(&rows)));
    }
    if rows.is_empty() && !args.table.script {
        return Ok(Outcome::text("no datasets available\n"));
    }
    Ok(Outcome::text(report(
        &rows,
        &args.fields,
        args.table.script,
        args.table.parsable,
    )))
}

/// The properties to ask for: none for all.
pub(crate) fn wanted(given: &str) -> Result<Vec<String>> {
    let given: Vec<&str> = given.split(',').collect();
    if given.iter().any(|name| name.is_empty()) {
        return Err(usage("a property name is empty"));
    }
    match given.as_slice() {
        ["all"] => Ok(Vec::new()),
        given if given.contains(&"all") => {
            Err(usage("'all' cannot be combined with other properties"))
        }
        given => Ok(given.iter().map(|name| canonical(name).into()).collect()),
    }
}

fn is_from(source: &ValueSource, wanted: &[SourceKind]) -> bool {
    let kind = match source {
        ValueSource::None => SourceKind::None,
        ValueSource::Default => SourceKind::Default,
        ValueSource::Local => SourceKind::Local,
        ValueSource::Inherited(_) => SourceKind::Inherited,
        ValueSource::Temporary => SourceKind::Temporary,
        ValueSource::Proposed => SourceKind::Proposed,
    };
    wanted.is_empty() || wanted.contains(&kind)
}

pub(crate) fn report(
    rows: &[DatasetRow],
    fields: &[GetField],
    script: bool,
    exact: bool,
) -> String {
    let head = |field: &GetField| {
        Column::left(match field {
            GetField::Name => "NAME",
            GetField::Property => "PROPERTY",
            GetField::Value => "VALUE",
            GetField::Source => "SOURCE",
        })
    };
    let cell = |row: &DatasetRow, prop: &PropertyRow, field: &GetField| match field {
        GetField::Name => row.name.clone(),
        GetField::Property => prop.property.clone(),
        GetField::Value => value::show(&prop.value, exact),
        GetField::Source => value::source(&prop.source),
    };
    let mut lines = Vec::new();
    for row in rows {
        for prop in &row.props {
            lines.push(fields.iter().map(|field| cell(row, prop, field)).collect());
        }
    }
    let heads: Vec<Column> = fields.iter().map(head).collect();
    table::show(&heads, &lines, script)
}

#[cfg(test)]
mod tests {
    use protocol::api::PropertyValue;

    use super::*;

    #[test]
    fn properties_are_selected() {
        assert_eq!(wanted("all").unwrap(), [""; 0]);
        assert_eq!(wanted("enc,used").unwrap(), ["encryption", "used"]);
        assert!(wanted("all,used").is_err());
        assert!(wanted("used,").is_err());
        assert!(wanted("").is_err());
    }

    #[test]
    fn sources_are_selected() {
        let inherited = ValueSource::Inherited("tank".into());
        assert!(is_from(&inherited, &[]));
        assert!(is_from(
            &inherited,
            &[SourceKind::Local, SourceKind::Inherited]
        ));
        assert!(!is_from(&inherited, &[SourceKind::Local]));
        assert!(is_from(&ValueSource::None, &[SourceKind::None]));
    }

    #[test]
    fn one_property_to_a_line() {
        let prop = |property: &str, value, source| PropertyRow {
            property: property.into(),
            value,
            source,
        };
        let rows = [DatasetRow {
            name: "tank/home".into(),
            kind: "filesystem".into(),
            props: vec![
                prop("used", PropertyValue::Bytes(98_304), ValueSource::None),
                prop(
                    "compression",
                    PropertyValue::Text("lz4".into()),
                    ValueSource::Inherited("tank".into()),
                ),
            ],
        }];
        use GetField::{Name, Property, Source as From, Value as Is};
        assert_eq!(
            report(&rows, &[Name, Property, Is, From], false, false),
            "\
NAME       PROPERTY     VALUE  SOURCE
tank/home  used         96K    -
tank/home  compression  lz4    inherited from tank
"
        );
        assert_eq!(
            report(&rows, &[Is, From], true, true),
            "98304\t-\nlz4\tinherited from tank\n"
        );
    }
}
